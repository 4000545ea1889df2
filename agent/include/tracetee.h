/*
 * tracetee: the agent's C API.
 *
 * A capture is process-wide; there is one at a time. All functions may be called from any thread,
 * but not from a signal handler. They take a lock; tracetee_dump and tracetee_stop take time that
 * the main thread of an app should not spend.
 *
 * Functions return a value of 0 or more, or one of the errors below. The text of the last error is
 * had from tracetee_last_error(). No function harms the process: on an error nothing is changed,
 * or, where the text says so, tracing stops.
 */
#ifndef TRACETEE_H
#define TRACETEE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The configuration is no JSON, or a field is out of its limits. The text names it. */
#define TRACETEE_ERROR_CONFIG (-1)
/* The call does not fit the state: a second start, a stop or dump without a capture. */
#define TRACETEE_ERROR_STATE (-2)
/* No symbol to hook, or the process's memory map cannot be read. */
#define TRACETEE_ERROR_HOOKS (-3)
/* A file or memory could not be had. The text names it, with the system's reason. */
#define TRACETEE_ERROR_IO (-4)
/* A recorder file is damaged or of another version. */
#define TRACETEE_ERROR_POOL (-5)
/* A bug in tracetee. */
#define TRACETEE_ERROR_INTERNAL (-6)
/* A pointer is null or a text is not UTF-8 where one is due. */
#define TRACETEE_ERROR_ARGUMENT (-7)

/*
 * Starts a capture: finds libcutils, hooks write and __write_chk in every loaded library (prctl and
 * pthread_setname_np too, for the names of threads), forces the tags on and records.
 *
 * config_json: a JSON object, NULL for all defaults. Fields, all optional:
 *   "tags"         array of category names ("view", "gfx", "app", ...); default ["all"]
 *   "pass_on"      "auto" (records go on to the kernel while a system trace has tags of its own),
 *                  "always" or "never"; default "auto"
 *   "recorder"     {"mode": what happens when the memory is full:
 *                      "startup"  the first records stay, later ones are dropped (default),
 *                      "ring"     the oldest go: a flight recorder,
 *                      "endless"  a thread of tracetee's streams them to "output" all the time,
 *                      "systrace" nothing is recorded, records go on to the kernel;
 *                   "capacity_kb": memory for all records (16384),
 *                   "block_kb": a thread's share at a time, a power of two, 8 to 1024 (16),
 *                   "directory": keep the memory in a file there, which survives a kill,
 *                   "recover_to": at the start, what killed processes left in "directory" becomes
 *                      traces here, on a thread of low priority; files that cannot be read are
 *                      renamed to *.pool.damaged. tracetee_stats tells ("health"."recovered"),
 *                   "clock": "auto" (the processor's counter where it is right) or "boot",
 *                   "drain_cpu_percent": endless: the most that the thread takes of a core (20)}
 *   "output"       mode endless: the trace that is streamed; "%p" stands for the process id
 *   "fast_path"    take records in atrace_begin_body and its kin, before they are formatted (false)
 *   "duration_ms"  the capture ends by itself after this time; at most a day
 *   "text"         {"catapult_only": leave out I, N, G and H (false),
 *                   "precision": "us" or "ns" ("us"),
 *                   "min_slice_us": {"main": 0, "render": 0, "other": 0}: leave out shorter sections,
 *                      by class of thread (the first, those called RenderThread, all others),
 *                   "main_thread_only": leave out all other threads (false)}
 *
 * Returns 0. Errors: CONFIG, STATE (one is running), HOOKS, IO, ARGUMENT.
 */
int tracetee_start(const char *config_json);

/*
 * Checks a configuration without starting anything. Returns 0. Errors: CONFIG, ARGUMENT.
 */
int tracetee_check_config(const char *config_json);

/*
 * Stops the running capture: gives the tags back, unhooks, keeps the records for tracetee_dump
 * until the next start; in mode endless, streams the rest and gives "output" its name.
 * Returns 0. Errors: STATE (none is running), IO (mode endless: the trace could not be written).
 */
int tracetee_stop(void);

/*
 * Writes the records of the running or last capture to the file at path, as ftrace text; as zstd
 * when the path ends in ".zst". The file appears when it is whole. The capture goes on, and no
 * thread that records is held up.
 * Returns 0. Errors: STATE (there was no capture, or its mode is endless or systrace), IO, ARGUMENT.
 */
int tracetee_dump(const char *path);

/*
 * Writes what is known of the running or last capture to buffer, as a JSON object with the fields
 * "recording", "health" (what was found and hooked) and "summary" (records by kind and thread,
 * dropped records by reason). At most size bytes are written, NUL included; buffer may be NULL.
 * Returns the text's whole length without the NUL, as snprintf does. Errors: STATE.
 */
int tracetee_stats(char *buffer, size_t size);

/*
 * Reads all recorder files (see "recorder.directory") in directory, of processes that live or
 * ended in whatever way, and writes one trace of them to path. options_json is as "text" above,
 * or NULL. What was found is written to buffer as JSON, as tracetee_stats does; without a single
 * record no trace is written and "summary"."file_bytes" is 0.
 * Returns the JSON's length. Errors: CONFIG, IO, ARGUMENT.
 */
int tracetee_recover(const char *directory, const char *options_json, const char *path,
                     char *buffer, size_t size);

/*
 * Writes the text of the last error of any thread to buffer, as tracetee_stats does; empty when
 * there was none. Returns its length.
 */
int tracetee_last_error(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif
