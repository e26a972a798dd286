# SPDX-License-Identifier: BSD-2-Clause
"""The demo's charts: bars of block characters for the terminal, and one SVG."""
import math
from html import escape

# Okabe and Ito's colours: told apart by everybody. Terminal: the nearest of 256.
COLOURS = ('#999999', '#e69f00', '#56b4e9', '#0072b2', '#009e73')
TERMINAL = (245, 214, 75, 32, 36)
BAR_WIDTH = 40


def bar(share, width):
    """share of width, in eighths of a character"""
    eighths = max(1, round(share * width * 8)) if share > 0 else 0
    return '█' * (eighths // 8) + ' ▏▎▍▌▋▊▉'[eighths % 8].strip()


def bars(runs, rows, colour):
    wide = max(len(r['name']) for r in runs)
    for title, meaning, key, text in rows:
        top = max(r[key] for r in runs) or 1
        print(f'  {title}: {meaning}')
        for n, r in enumerate(runs):
            drawn = bar(r[key] / top, BAR_WIDTH)
            if colour:
                drawn = f'\x1b[38;5;{TERMINAL[n % len(TERMINAL)]}m{drawn}\x1b[0m'
            print(f"    {r['name'].ljust(wide)}  {drawn} {text(r[key])}")
        print()


class Svg:
    def __init__(self, width, height):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="system-ui, sans-serif" font-size="13">',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>']

    def text(self, x, y, words, anchor='start', fill='#333333', size=13, weight='normal'):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" '
                          f'font-size="{size}" font-weight="{weight}">{escape(words)}</text>')

    def rect(self, x, y, width, height, fill):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                          f'height="{height:.1f}" rx="2" fill="{fill}"/>')

    def line(self, points, stroke, width=1.0):
        path = ' '.join(f'{x:.1f},{y:.1f}' for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{stroke}" '
                          f'stroke-width="{width}" stroke-linejoin="round"/>')

    def done(self):
        return '\n'.join(self.parts + ['</svg>', ''])


def panel(svg, x, y, width, title, runs, key, text):
    """one horizontal bar per run"""
    svg.text(x, y, title, weight='600')
    top = max(r[key] for r in runs) or 1
    for n, r in enumerate(runs):
        at = y + 12 + n * 24
        long = (width - 70) * r[key] / top
        svg.rect(x, at, max(long, 1.5), 17, COLOURS[n % len(COLOURS)])
        svg.text(x + max(long, 1.5) + 6, at + 13, text(r[key]))


def medians(answers, step):
    """(time, median TTFT) of every step seconds"""
    slots = {}
    for due, ttft in answers:
        slots.setdefault(int(due / step), []).append(ttft)
    return [((slot + 0.5) * step, sorted(found)[len(found) // 2])
            for slot, found in sorted(slots.items())]


def over_time(svg, x, y, width, height, series, step=1.0):
    """TTFT against the time of the run; logarithmic, as a queue differs from none by orders."""
    lines = [medians(answers, step) for answers in series]
    values = [v for line in lines for _, v in line]
    if not values:
        return
    low = math.floor(math.log10(max(min(values), 1e-3)))
    high = max(math.ceil(math.log10(max(values))), low + 1)
    last = max(t for line in lines for t, _ in line) + step / 2

    def place(t, v):
        return (x + width * t / last,
                y + height * (high - math.log10(max(v, 10.0 ** low))) / (high - low))

    for power in range(low, high + 1):
        at = place(0, 10.0 ** power)[1]
        svg.line([(x, at), (x + width, at)], '#dddddd')
        label = f'{10 ** power} s' if power >= 0 else f'{round(1000 * 10.0 ** power)} ms'
        svg.text(x - 8, at + 4, label, anchor='end', fill='#777777', size=12)
    for t in range(0, int(last) + 1, 5):
        svg.text(place(t, 1)[0], y + height + 18, f'{t} s', anchor='middle', fill='#777777', size=12)
    for n, line in enumerate(lines):
        svg.line([place(t, v) for t, v in line], COLOURS[n % len(COLOURS)], 2.5)


def svg(runs, series, seconds):
    out = Svg(960, 740)
    out.text(40, 40, 'kvsteer: the same requests, the same four engines, five ways to choose', size=19,
             weight='600')
    out.text(40, 62, f"{runs[0]['requests']} requests of a real chat service’s trace over real "
             'connections; engines emulated, their caches cold at each start', fill='#777777')
    x = 40.0
    for n, r in enumerate(runs):
        out.rect(x, 80, 14, 14, COLOURS[n % len(COLOURS)])
        out.text(x + 20, 92, r['name'], weight='600')
        x += 45 + 8 * len(r['name'])
    out.text(40, 128, 'Time to first token over the run (median of each second)', weight='600')
    over_time(out, 90, 142, 830, 210, series)
    columns = (
        ('Hit rate', 'hit_rate', '{:.1%}'.format),
        ('TTFT p50', 'ttft_p50_s', seconds),
        ('TTFT p90', 'ttft_p90_s', seconds),
        ('TTFT p99', 'ttft_p99_s', seconds),
        ('Busiest engine over mean', 'busiest_over_mean', '{:.2f}'.format),
        ('Decided in the kernel', 'kernel_share', '{:.1%}'.format),
        ('Agent CPU per request', 'gateway_cpu_us_per_request', '{:.0f} µs'.format),
    )
    for n, (title, key, text) in enumerate(columns):
        panel(out, 40 + n % 4 * 228, 410 + n // 4 * 166, 205, title, runs, key, text)
    return out.done()
