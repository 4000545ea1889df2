/*
 * tracetee: the agent's C API.
 *
 * Two ways: tracetee_install, and a remote configuration says what is captured and when; or
 * tracetee_start, tracetee_stop and tracetee_dump by hand.
 *
 * A capture is process-wide; there is one at a time. All functions may be called from any thread,
 * but not from a signal handler. tracetee_install, tracetee_start, tracetee_dump, tracetee_stop and
 * tracetee_stats take a lock and time that the main thread of an app should not spend (but for
 * tracetee_install at its start: some milliseconds).
 *
 * Functions return a value of 0 or more, or one of the errors below. The text of the last error is
 * had from tracetee_last_error(). No function harms the process: on an error nothing is changed,
 * or, where the text says so, tracing stops.
 */
#ifndef TRACETEE_H
#define TRACETEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
 * pthread_setname_np too, for the names of threads), forces the tags on and records. Where there is a
 * libcutils, a thread of low priority looks four times a second whether the system has reset the tags
 * (a trace of its own began or ended): it forces them again, and notes the gap in the trace.
 *
 * config_json: a JSON object, NULL for all defaults. Fields, all optional:
 *   "tags"         array of category names ("view", "gfx", "app", ...); default ["all"]
 *   "pass_on"      "auto" (records go on to the kernel while a system trace has tags of its own),
 *                  "always" or "never"; default "auto". With "auto", tags that would be taken from a
 *                  Perfetto session that gets them from the app itself are left to it (Android 16)
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
 *                   "main_thread_only": leave out all other threads (false),
 *                   "redaction": what is kept out of names, one rule after the other: [{"pattern": a
 *                      regular expression, "except": names that it leaves alone, "action": "drop",
 *                      "hash" or {"replace": {"with": text}}}]}
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
 * The health report: writes what is known of the running or last capture to buffer, as a JSON object
 * with the fields "headline" (what went wrong: a capture that was lost, why nothing is recorded now;
 * null while all is well), "recording", "health" (libcutils' symbols and tags, how often the system has
 * reset them, what was hooked and what not),
 * "summary" (records by kind and thread, dropped records by reason) and, where tracetee_install was
 * called, "control" (the configuration in force, each window's state, why the last capture did or
 * did not run, what captures and records have cost). At most size bytes are written, NUL included; buffer may be NULL.
 * Where loading is not watched (Android 7), this call also hooks the libraries that were loaded since; the
 * agent's threads do so four times a second.
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
 * Installs the agent: from here on the remote configuration opens and closes captures. Starts with
 * the configuration of the last run, so that a window that opens with the app is open when this
 * returns; hooks libraries when something is to be recorded, not before. Two threads of low priority
 * are started, one of which only waits; a third where tracetee itself sends.
 *
 * install_json: a JSON object:
 *   "directory"     the agent's own, in the app's private files; made if need be. Required.
 *                   Captures wait in its "spool/ready"
 *   "install_id"    what decides whether this device is sampled; default: a random one that stays
 *   "version_code"  the app's version code
 *   "process"       the process's name, where the app has several; "api": Android's API level, where
 *                   the property ro.build.version.sdk does not say it
 *   "config_file"   a file with the configuration, looked at once a second; its detached signature
 *                   is beside it, with ".sig" added
 *   "public_key"    the Ed25519 key (64 hexadecimal digits) that must have signed configurations
 *   "consent"       whether the user consents; what was said last holds over restarts; at first, yes
 *   "app", "version_name", "device"
 *                   go with each capture: com.example.app, 1.2, an object of up to 512 bytes
 *   "upload"        where captures go; without it they stay on the device:
 *                   {"url": the collector, https://host[:port][/path],
 *                    "token": what identifies the app there,
 *                    "tickets": each capture's address is asked for at the collector first, as for
 *                       presigned ones of S3 (false),
 *                    "transport": "http", tracetee sends on a thread of its own (the default where the
 *                       library is built with feature http or https), or "app": the app does, see
 *                       tracetee_upload,
 *                    "config": the configuration is asked for there (true),
 *                    "net": see tracetee_set_network; default off Android: mains, unmetered,
 *                    "ca_file": certificates in PEM instead of Mozilla's, for "http",
 *                    "cleartext": allow http:// to other machines (false)}
 *
 * The configuration is documented in remote-config.schema.json. One that is wrong anywhere, not
 * signed, expired, or older than the one in force, is refused whole: tracetee_stats says why.
 *
 * Returns 0. Errors: CONFIG, STATE (it is installed, or a capture runs), IO, ARGUMENT. While it is
 * installed, tracetee_start and tracetee_stop return STATE. A forked child is not installed.
 */
int tracetee_install(const char *install_json);

/*
 * Ends it: what is open is kept as a capture, tags and hooks are given back. Returns 0. Errors:
 * STATE (it is not installed).
 */
int tracetee_uninstall(void);

/*
 * The functions up to tracetee_low_memory leave a note for the agent's thread and return; whether
 * and why something did not happen is in the health report. They return 0. Errors: STATE (it is not
 * installed), ARGUMENT.
 */

/* Offers a configuration that the app has fetched itself, with its detached signature (64 bytes or
 * 128 hexadecimal digits; NULL for none). */
int tracetee_offer_config(const uint8_t *config, size_t config_bytes, const uint8_t *signature,
                          size_t signature_bytes);

/* Fires the triggers {"custom": {"name": name}}. */
int tracetee_trigger(const char *name);

/* Opens and closes the window of that id, which "opens" "manual". */
int tracetee_open(const char *window);
int tracetee_close(const char *window);

/* The system has said that memory is low: fires the triggers {"low_memory": {}}. */
int tracetee_low_memory(void);

/* The display refreshes so often, in Hz; triggers that count in periods mean it. 60 until it is said. */
void tracetee_set_refresh_rate(double hz);

/*
 * The app shows this screen now: reports tell jank by screen. An instant "screen:NAME" in the trace. The
 * name goes into captures as it is: no user's data. At most 100 characters.
 */
int tracetee_set_screen(const char *name);

/*
 * Has the main loop watched for triggers {"blocked": {}}: once a second ping(context) is called on
 * the agent's thread, and has to post a task to the main loop that calls tracetee_main_is_alive().
 * ping must call nothing else of this header. NULL ends it. context must stay valid.
 */
void tracetee_watch_main(void (*ping)(void *), void *context);
void tracetee_main_is_alive(void);

/*
 * The user consents to captures being made and sent, or does not any more: then what is open is
 * thrown away, what waits is deleted, nothing is recorded or sent. It holds over restarts.
 */
int tracetee_set_consent(bool given);

/*
 * What the device's network and power are now, for uploads; a JSON object:
 *   {"network": "none", "metered" or "unmetered", "roaming": false, "charging": false,
 *    "battery_percent": 80, "power_save": false}
 * Left out: metered, and false. Errors, besides those above: CONFIG.
 */
int tracetee_set_network(const char *net_json);

/* One request. Send it once, as it is; follow no redirect. */
typedef struct tracetee_request {
    const char *method;
    const char *url;
    const char *headers;       /* lines "Name: value\n" */
    const char *body_path;     /* the body is this file, body_bytes long; or NULL: */
    const uint8_t *body;       /* it is these body_bytes bytes; or NULL: there is none */
    uint64_t body_bytes;
    uint64_t timeout_ms;       /* for all of it */
    uint64_t max_answer_bytes; /* an answer with a larger body is a broken one */
} tracetee_request;

typedef struct tracetee_response tracetee_response;

/* What a tracetee_send returns: it was answered, with whatever status, and tracetee_respond called; */
#define TRACETEE_SENT 0
/* nothing of it was sent: no network, no such host, an untrusted certificate; */
#define TRACETEE_UNREACHABLE 1
/* it broke off behind that: the server may have it or not. */
#define TRACETEE_BROKEN 2

/* The app's HTTP client. Called on the thread that called tracetee_upload. */
typedef int (*tracetee_send)(const tracetee_request *request, tracetee_response *response, void *user);

/* Gives the answer, from within a tracetee_send. headers as above, or NULL; what is given is copied. */
void tracetee_respond(tracetee_response *response, int status, const char *headers,
                      const uint8_t *body, size_t body_bytes);

/*
 * Sends what may be sent, by the app's own HTTP client, on the calling thread, which it may keep for
 * minutes: call it where the platform wants background work done (on Android in a Worker with a
 * network constraint), not on a thread that draws. Asks for the configuration when that is due,
 * sends captures, then the loss report, until something fails. net_json is as for
 * tracetee_set_network, or NULL. Nothing that the thread records meanwhile is kept.
 *
 * Writes to buffer, as tracetee_stats does, a JSON object: "delivered" (ids), "held" (why not all was
 * sent, or null), "again_s" (when the next call makes sense), "status" (as "upload" of the health
 * report). Returns its length. Errors: STATE (not installed, or no "upload"), CONFIG, ARGUMENT.
 */
int tracetee_upload(const char *net_json, tracetee_send send, void *user, char *buffer, size_t size);

/*
 * Records of one's own, as android.os.Trace makes them; also where there is no libcutils, and
 * whatever tags are on. While nothing is recorded a call costs next to nothing. Names are cut at
 * 1000 bytes; NULL is an empty name. A section belongs to the calling thread; what is asynchronous
 * may end on another, and cookie tells those of one name apart. tracetee_is_recording is true from
 * when hooks are in place and the tags are forced, on Java's side too, until just before they are
 * given back.
 */
bool tracetee_is_recording(void);
void tracetee_begin_section(const char *name);
void tracetee_end_section(void);
void tracetee_begin_async(const char *name, int32_t cookie);
void tracetee_end_async(const char *name, int32_t cookie);
/* On a track of its own: what has the track's name and cookie ends. */
void tracetee_begin_track(const char *track, const char *name, int32_t cookie);
void tracetee_end_track(const char *track, int32_t cookie);
void tracetee_counter(const char *name, int64_t value);
void tracetee_instant(const char *name);

/*
 * Tests on this device what every capture needs: catches a panic of its own, locks a file in directory,
 * compresses a trace of 600 KB there, decodes and compares it. Takes some milliseconds and leaves no file;
 * a running capture is not touched. For debug builds and tests: where the stack cannot be unwound, which no
 * sound build has, the process aborts.
 * Returns 0. Errors: IO (tracetee_last_error says what failed), ARGUMENT.
 */
int tracetee_self_test(const char *directory);

/*
 * Writes the text of the last error of any thread to buffer, as tracetee_stats does; empty when
 * there was none. Returns its length.
 */
int tracetee_last_error(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif
