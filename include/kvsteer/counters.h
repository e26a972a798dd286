/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every way a packet or a request can go has its own counter with a name: KV_COUNTER(name,
 * meaning). The list is the contract of `kvsteer counters`: names are never renamed, only added.
 */
#ifndef KVSTEER_COUNTERS_H
#define KVSTEER_COUNTERS_H

/* clang-format off */
#define KV_COUNTERS(X)                                                                             \
	/* requests, by lane: each request is counted once */                                      \
	X(requests_express, "requests decided and spliced in the kernel")                          \
	X(requests_agent, "requests read and decided by the agent")                                \
	X(requests_refused, "requests answered with an error by the agent itself")                 \
	/* why a request was left to the agent lane */                                             \
	X(agent_no_hint, "completion request without a usable hint")                               \
	X(agent_head_split, "request head not whole in its first packet")                          \
	X(agent_head_odd, "request head outside the strict subset the kernel reads")               \
	X(agent_pipelined, "bytes of a further request behind this one")                           \
	X(agent_too_large, "body over the service's limit")                                        \
	X(agent_home_busy, "client's home socket is not quiescent")                                \
	X(agent_no_backend, "no backend that takes new requests")                                  \
	X(agent_no_upstream, "no idle upstream to the chosen backend")                             \
	X(agent_options, "TCP options of the two sides do not match")                              \
	X(agent_family, "client and backend are of different IP versions")                         \
	X(agent_local_client, "IPv4 client on this host, engine on another")                       \
	X(agent_mss, "one side takes shorter segments than the other may send")                    \
	X(agent_clients_full, "client flow table full")                                            \
	X(agent_draining, "service is draining")                                                   \
	X(agent_models, "completion request of a service whose engines' models differ")            \
	/* hints */                                                                                \
	X(hint_prefix, "requests with a well-formed KV-Prefix")                                    \
	X(hint_session, "requests with a session key")                                             \
	X(hint_malformed, "KV-Prefix ignored: malformed or of an unknown version")                 \
	/* pairs */                                                                                \
	X(lends, "pairs lent at a request (express lane)")                                         \
	X(lends_midflight, "pairs lent at a response (agent lane)")                                \
	X(returns, "pairs returned to their home sockets, upstream pooled again")                  \
	X(returns_closed, "pairs returned whose upstream is not used again")                       \
	X(upstream_stale, "idle upstream found closed or not quiescent at lend time")              \
	X(lend_raced, "lend given up: another CPU was first")                                      \
	X(retry_forgotten, "lend forgotten before any byte was acknowledged: client sends again")  \
	X(broken_before_response, "backend failed before its response: agent answers 502")         \
	X(broken_response, "backend failed inside its response: client sees a broken stream")      \
	X(pairs_dead_client, "pairs ended: the client had vanished")                               \
	X(pairs_dead_backend, "pairs ended: the backend had vanished")                             \
	X(client_aborted, "client reset its connection while lent")                                \
	X(client_half_closed, "client closed its side while lent")                                 \
	X(smuggling_refused, "retransmitted head that does not frame as the first did")            \
	X(trace_overwritten, "ends of requests whose trace later ones had taken by then")          \
	X(trace_missed, "requests, or steps of them, not traced: another CPU was writing there")   \
	/* packets of lent pairs */                                                                \
	X(packets_to_backend, "packets spliced from client to backend")                            \
	X(packets_to_client, "packets spliced from backend to client")                             \
	X(bytes_to_backend, "payload bytes spliced from client to backend")                        \
	X(bytes_to_client, "payload bytes spliced from backend to client")                         \
	X(home_muted, "packets of sleeping home sockets held back")                                \
	X(probes_sent, "probes of silent peers, sent by sleeping home sockets")                    \
	X(challenges, "resets that may be forged: the peer was asked back (RFC 5961)")             \
	X(icmp_passed_on, "path MTU messages passed on to the side whose segment was too big")     \
	X(home_ack_copies, "acknowledgements copied to a home socket that had not seen them")      \
	X(stashed, "response segments passed on ahead of a hole, and kept to be framed")           \
	X(drop_out_of_order, "response segment out of order while framing must see every byte")    \
	X(drop_hole, "segment ahead of a hole, of a client connection that is between requests")   \
	X(drop_stale, "segment of an earlier lend")                                                \
	X(drop_reset_late, "backend's reset behind a response that has passed whole")              \
	X(drop_window, "segment far outside of its connection's window: forged, or very old")      \
	X(drop_early_request, "bytes of the next request before this response is complete")        \
	X(drop_unsent_ack, "acknowledgement of bytes never sent")                                  \
	X(drop_race, "another CPU changed the pair meanwhile; TCP sends the segment again")        \
	X(drop_checksum, "segment of ours with a wrong TCP checksum")                             \
	X(drop_rewrite, "packet of a lent pair that could not be rewritten")                       \
	X(drop_fragment, "IP fragment of a flow whose sequence numbers are shifted")               \
	X(drop_ip_options, "IP options or extension headers, on a connection that has been lent")  \
	X(drop_after_response, "bytes behind the end of a response")                               \
	X(trimmed, "segments cut at the end of the request")                                       \
	/* steering */                                                                             \
	X(decisions, "steering decisions")                                                         \
	X(matches, "decisions that found a live holder")                                           \
	X(diverted, "decisions that passed over the longest match")                                \
	X(prefix_inserted, "prefix entries created")                                               \
	X(prefix_evicted, "prefix entries that had to go for newer ones: table full")                \
	X(prefix_busy, "prefix entries not stored: other CPUs at work in their set")               \
	X(holder_evicted, "holders pushed out of an entry by a ninth")                             \
	X(session_inserted, "session entries created")                                             \
	X(session_full, "session entries not stored: table full")                                  \
	X(unlearned, "tentative entries taken back: the request failed")                           \
	/* the agent's own */                                                                      \
	X(agent_body_unparsed, "bodies without a readable prompt, served by load alone")           \
	X(agent_body_unhashed, "large bodies served by load alone: others were being hashed")      \
	X(agent_relayed, "responses relayed whole by the agent")                                   \
	X(agent_retries, "requests sent again to another backend before any answer byte")          \
	X(requests_no_model, "requests for a model that no engine serves: 404")                     \
	X(agent_busy_passed_on, "429 and 503 of a backend: the request went to another one")       \
	X(agent_bad_gateway, "502 answers")                                                        \
	X(agent_unavailable, "503 answers")                                                        \
	X(agent_timeout, "504 answers")                                                            \
	X(agent_request_timeout, "408 answers: request not here in time")                          \
	X(agent_memory_waits, "clients not read for a while: limits.memory reached")               \
	X(agent_memory_waits_address, "clients not read for a while: limits.memory_per_address")   \
	X(agent_events_lost, "events from the kernel lost: ring buffer full")                      \
	X(upstreams_opened, "upstream connections opened")                                         \
	X(upstreams_closed, "upstream connections closed")                                         \
	X(upstreams_failed, "upstream connections that could not be opened")                       \
	X(upstreams_all_busy, "requests that waited: all upstreams_per_backend in use")            \
	X(upstreams_out_of_files, "upstream connections not opened: out of open files")            \
	X(upstreams_out_of_ports, "upstream connections not opened: no local port free")           \
	X(upstreams_out_of_memory, "upstream connections not opened: out of memory")               \
	X(clients_accepted, "client connections accepted")                                         \
	X(clients_refused, "client connections refused: limit reached")                            \
	X(clients_refused_address, "client connections refused: limits.clients_per_address")       \
	X(clients_out_of_files, "client connections refused: open files kept for upstreams")       \
	X(accepts_put_off, "accepting put off for a second: out of files or memory")               \
	/* engines' KV events */                                                                   \
	X(told_messages, "messages of engines' events, replayed ones included")                    \
	X(told_stored, "blocks that engines said they stored")                                     \
	X(told_removed, "blocks that engines said they evicted")                                   \
	X(told_cleared, "caches that engines said are empty, or of which nothing is known")        \
	X(told_gaps, "gaps in the numbers of an engine's messages")                                \
	X(told_replays, "replays asked for")                                                       \
	X(told_replays_failed, "replays that did not bring what was missed")                       \
	X(told_restarts, "engines that began anew by the numbers of their messages")               \
	X(told_unreadable, "messages that were no batch of events: refused as a whole")            \
	X(told_malformed, "events with a field of a wrong type, or tokens that do not fit")        \
	X(told_unknown, "events and fields of unknown names: skipped")                             \
	X(told_ignored_groups, "events of caches that are not full attention: ignored")            \
	X(told_unfit, "blocks of a size that does not go with the one that is looked up")          \
	X(told_orphans_dropped, "blocks whose parent was never told: dropped")                     \
	X(told_refused, "blocks that found no room or had to make it: limits.events")              \
	X(told_strangers, "messages of topics that name no backend")                               \
	X(tokenize_asked, "prompts whose tokens engines were asked for (/tokenize)")               \
	X(tokenize_failed, "of them, not answered, or with an error")                              \
	X(tokenize_dropped, "prompts not asked about: too many wait, or too long, or no events")   \
	X(tokenize_unmatched, "answers without token strings, or in which no text was found")      \
	X(tied_prompts, "prompts of text tied to the blocks that events speak of")                 \
	X(tied_rungs, "prefixes of theirs that were tied")
/* clang-format on */

enum kv_counter {
#define KV_COUNTER_ENUM(name, meaning) KV_CNT_##name,
	KV_COUNTERS(KV_COUNTER_ENUM)
#undef KV_COUNTER_ENUM
		KV_CNT_MAX,
};

#endif /* KVSTEER_COUNTERS_H */
