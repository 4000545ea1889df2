/*
 * tracetee: the agent's C API.
 *
 * An app uses one of two interfaces:
 *   - tracetee_install: a remote configuration decides what is captured, and when.
 *   - tracetee_start, tracetee_stop and tracetee_dump: the app captures manually.
 *
 * There is one capture per process at a time.
 *
 * Threads: call any function from any thread, but never from a signal handler. tracetee_uninstall,
 * tracetee_start, tracetee_stop, tracetee_dump, tracetee_health and tracetee_recover take a lock and use
 * files; keep them off an app's main thread. Call tracetee_install on the main thread at the app's start.
 *
 * Errors: a function that returns int returns 0 or more on success, else one of the errors below.
 * Call tracetee_last_error() for the message. Each function lists its own errors; every one of them
 * may also return TRACETEE_ERROR_INTERNAL. After an error the process is as it was before the call,
 * unless the function says otherwise.
 *
 * Strings are NUL-terminated UTF-8. The library copies what it keeps.
 */
#ifndef TRACETEE_H
#define TRACETEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The configuration is not valid JSON, or a field is outside its limits. The message names the field. */
#define TRACETEE_ERROR_CONFIG (-1)
/* The call does not fit the state: a second start, or a stop or dump without a capture. */
#define TRACETEE_ERROR_STATE (-2)
/* No library could be hooked, or the process's memory map is unreadable. */
#define TRACETEE_ERROR_HOOKS (-3)
/* An operation on a file, or an allocation, failed. The message has the path and the system's reason. */
#define TRACETEE_ERROR_IO (-4)
/* A recorder file is damaged, or another version of tracetee wrote it. */
#define TRACETEE_ERROR_POOL (-5)
/*
 * tracetee has a bug: it panicked, in this call or earlier. It stays off until the process ends, has restored the app's
 * state, and tracetee_health has the reason.
 */
#define TRACETEE_ERROR_INTERNAL (-6)
/* A pointer is NULL where it must not be, or a string is not UTF-8. */
#define TRACETEE_ERROR_ARGUMENT (-7)

/*
 * Nothing will be recorded for this request: the window's cool-down, a budget, no consent … The message names
 * the window and the reason.
 */
#define TRACETEE_ERROR_REFUSED (-8)

/* Returns the library's version, "MAJOR.MINOR.PATCH": a constant string, never NULL. */
const char *tracetee_version(void);

/* ---- Manual captures ---- */

/*
 * Starts a capture.
 *
 * Finds libcutils, hooks write and __write_chk in every loaded library (and prctl and
 * pthread_setname_np, to learn thread names), forces the atrace tags on and records. If the process
 * has a libcutils, a thread of low priority checks four times a second whether the system has reset
 * the tags, forces them again and notes the gap in the trace.
 *
 * config_json: a JSON object; NULL for all defaults. All fields are optional; defaults are in
 * parentheses:
 *   "tags"         array of atrace categories: "view", "gfx", "app", ... (["all"])
 *   "pass_on"      which records still go to the kernel ("auto"):
 *                      "auto"    those of tags that a system trace has on. On Android 16, tags that
 *                                a Perfetto session reads from the app itself are not forced,
 *                      "always"  all records,
 *                      "never"   no records
 *   "recorder"     object:
 *       "mode"         behaviour when the memory is full ("startup"):
 *                          "startup"   keep the first records, drop later ones,
 *                          "ring"      overwrite the oldest records: a flight recorder,
 *                          "endless"   stream records to "output" all the time,
 *                          "systrace"  record nothing; all records go to the kernel
 *       "capacity_kb"  memory for all records, KiB (16384)
 *       "block_kb"     memory that a thread takes at a time, KiB: a power of two, 8 to 1024 (16)
 *       "directory"    keep the memory in a file in this directory, which survives a SIGKILL
 *       "recover_to"   at the start, write traces of what killed processes left in "directory" to
 *                      this directory, on a thread of low priority. Unreadable files are renamed to
 *                      *.pool.damaged. "health"."recovered" of tracetee_health lists the results
 *       "clock"        "auto", the processor's counter where it is reliable, or "boot" ("auto")
 *       "drain_cpu_percent"
 *                      mode endless: limit of the streaming thread, percent of one core (20)
 *   "output"       mode endless: path of the streamed trace; "%p" stands for the process id
 *   "fast_path"    take records in atrace_begin_body and its siblings, before they are formatted
 *                  (false)
 *   "frame_counters"
 *                  record how long the main thread and render threads ran and waited for a processor
 *                  in each frame, and their page faults and switches (false)
 *   "duration_ms"  stop the capture after this time, ms; at most a day
 *   "text"         object:
 *       "precision"         of times: "us" or "ns" ("us")
 *       "min_slice_us"      leave out sections shorter than this, us, by thread: the main thread,
 *                           threads named RenderThread, others ({"main": 0, "render": 0, "other": 0})
 *       "main_thread_only"  leave out all other threads (false)
 *       "redaction"         array of rules that are applied to names in turn: [{"pattern": a regular
 *                           expression, "except": a regular expression of names to leave alone,
 *                           "action": "drop", "hash" or {"replace": {"with": text}}}]
 *
 * Returns 0. Errors: CONFIG, STATE (a capture is running, or the agent is installed), HOOKS, IO,
 * ARGUMENT.
 */
int tracetee_start(const char *config_json);

/*
 * Checks a configuration of tracetee_start without starting a capture.
 *
 * Returns 0. Errors: CONFIG, ARGUMENT.
 */
int tracetee_check_config(const char *config_json);

/*
 * Stops the running capture: restores the tags and unhooks the libraries. tracetee_dump can write
 * the records until the next start. In mode endless, streams the remaining records and completes
 * "output".
 *
 * Returns 0. Errors: STATE (no capture is running, or the configuration started it), IO (mode
 * endless: the trace could not be written; the capture has stopped).
 */
int tracetee_stop(void);

/*
 * Writes the records of the running or last capture to a file, as ftrace text. A running capture continues, and no recording
 * thread has to wait.
 *
 * path: the file; a path that ends in ".zst" is compressed. The file appears when it is complete.
 *
 * Returns 0. Errors: STATE (there was no capture, or its mode is endless or systrace), IO, ARGUMENT.
 */
int tracetee_dump(const char *path);

/*
 * Receives a block of a trace: whole lines of ftrace text, at most 256 KiB, without a NUL.
 *
 * lost: number of blocks dropped before this one, because the listener was slow and 16 others waited. If the last blocks
 * were dropped, the last call has their number and 0 bytes. "output" has all blocks.
 */
typedef void (*tracetee_block)(const char *text, size_t bytes, uint64_t lost, void *user);

/*
 * Passes on the trace while it is recorded: each block of text, after the streaming thread has written it to "output"
 * (after a second at the latest). The blocks in order are the trace's text.
 *
 * For captures of mode "endless". Runs on the calling thread, which is not recorded during the call, until the capture's
 * last block, or until tracetee_unlisten. Called before tracetee_start, it waits for the capture and gets its first block,
 * too. The recording never waits for block.
 *
 * block, user: the function and its argument. It is not called after tracetee_listen has returned.
 *
 * Returns 0. Errors: STATE (another thread listens), ARGUMENT.
 */
int tracetee_listen(tracetee_block block, void *user);

/*
 * Ends tracetee_listen after the current call of block; waiting blocks are not delivered. Does nothing if no
 * thread listens. May be called from block.
 */
void tracetee_unlisten(void);

/*
 * Writes the health report to a buffer: a JSON object about the running or last capture.
 *   "headline"   the first problem to look at: a lost capture, or why nothing is recorded; null if
 *                there is none
 *   "recording"  true while records are taken
 *   "health"     libcutils' symbols and tags, how often the system has reset the tags, the hooked
 *                libraries, those that could not be hooked, and why
 *   "summary"    records by kind and thread, dropped records by reason
 *   "control"    after tracetee_install: the configuration in force, the state of each window, the
 *                outcome of the last capture, the cost of captures and records. While the agent
 *                starts, this function waits for it, at most a second
 *
 * On Android 7, where library loads are not watched, also hooks the libraries that were loaded in the meantime. (The agent's
 * threads do so four times a second.)
 *
 * buffer: receives at most size bytes, including the NUL; may be NULL.
 *
 * Returns the length of the whole text without the NUL, as snprintf does. Errors: STATE (there was
 * no capture, and the agent is not installed).
 */
int tracetee_health(char *buffer, size_t size);

/*
 * Writes one trace of all recorder files (see "recorder"."directory") in a directory, of processes
 * that still run and of processes that ended in any way.
 *
 * options_json: as "text" of tracetee_start; NULL for the defaults.
 * path: the trace. If no file has or has lost a record, no trace is written and "summary"."file_bytes" is 0.
 * buffer, size: receive a JSON object with the results, as in tracetee_health.
 *
 * Returns the length of the JSON text. Errors: CONFIG, IO, ARGUMENT.
 */
int tracetee_recover(const char *directory, const char *options_json, const char *path,
                     char *buffer, size_t size);

/* ---- Captures by remote configuration ---- */

/*
 * Installs the agent: from now on the remote configuration opens and closes captures.
 *
 * Begins with the configuration of the last run. Hooks libraries only when there is something to
 * record. Starts two threads of low priority, one of which only waits, and a third if tracetee itself
 * sends captures.
 *
 * The call itself checks its arguments, and neither reads nor writes a file: the agent's thread does. Only if the stored
 * configuration has a window that is not "manual" does the call wait for that thread, until the window is open or armed: at
 * most "start_wait_ms" while the thread works on files. Meanwhile it installs the hooks that the previous start requested,
 * also in a library's constructor. On a slower disk, recording of libraries begins later: "control"."late_start" of
 * tracetee_health and a note in the trace say how late, and why.
 *
 * Your own sections (tracetee_begin_section ...) are recorded from the call's return on, in memory,
 * unless "consent" is false. The configuration is read after that; records that it forbids are discarded.
 *
 * An error on files that the agent's thread finds while the call waits is returned. Later ones are in
 * tracetee_health: "control"."state" is "failed" if the directory cannot be used, and
 * "control"."upload"."trouble" says why nothing can be sent. The agent then stays installed until
 * tracetee_uninstall.
 *
 * install_json: a JSON object; only "directory" is required:
 *   "directory"     the agent's own directory, in the app's private files; created if it is missing.
 *                   Finished captures wait in its "spool/ready"
 *   "install_id"    identifies the device for sampling (a random id, stored by the agent)
 *   "version_code"  the app's version code
 *   "process"       the process's name, if the app has several processes
 *   "api"           Android's API level (the property ro.build.version.sdk)
 *   "config_file"   a file with the configuration, checked once a second; its detached signature is
 *                   the file of the same name with ".sig" added
 *   "public_key"    accept only configurations that this Ed25519 key has signed; 64 hexadecimal digits
 *   "segment"       attributes by which the ledger distinguishes installations, such as {"plan": "premium"}, at most 4
 *   (none)
 *   "start_wait_ms" limit of the wait for files, ms, 0 to 10000 (3)
 *   "consent"       whether the user consents. The last answer persists across restarts (initially: true)
 *   "app", "version_name", "device"
 *                   metadata of each capture: "com.example.app", "1.2", an object of up to 512 bytes
 *   "upload"        where captures are sent; without it they stay on the device. An object:
 *       "url"        the collector: https://host[:port][/path]
 *       "token"      identifies the app to the collector
 *       "transport"  "http": tracetee sends on its own thread (the default of a library built
 *                    with the feature http or https); "app": the app sends, see tracetee_upload
 *       "config"     fetch the configuration from the collector (true)
 *       "net"        see tracetee_set_network; the default off Android is mains power, unmetered
 *       "ca_file"    transport "http": PEM certificates to trust instead of Mozilla's
 *       "cleartext"  allow http:// to other machines (false)
 *
 * remote-config.schema.json documents the configuration. One that is invalid, unsigned, expired or
 * older than the one in force is rejected as a whole; tracetee_health has the reason.
 *
 * While the agent is installed, tracetee_start and tracetee_stop return STATE. In a forked child the
 * agent is not installed.
 *
 * Returns 0. Errors: CONFIG, STATE (it is installed already, or a capture is running), IO (no thread
 * could be started; or the directory cannot be used, as above), ARGUMENT.
 */
int tracetee_install(const char *install_json);

/*
 * Uninstalls the agent: keeps the records of the open window as a capture, restores the tags and
 * unhooks the libraries. Waits for the agent's threads, including their start.
 *
 * Returns 0. Errors: STATE (it is not installed).
 */
int tracetee_uninstall(void);

/*
 * The functions from here to tracetee_low_memory, and tracetee_set_consent and tracetee_set_network,
 * queue a message for the agent's thread and return at once; the health report has the outcome.
 *
 * They return 0. Errors: STATE (the agent is not installed), ARGUMENT.
 */

/*
 * Offers a configuration that the app has fetched itself.
 *
 * config: config_bytes bytes of JSON.
 * signature: its detached Ed25519 signature, 64 bytes or 128 hexadecimal digits; NULL for none.
 */
int tracetee_offer_config(const uint8_t *config, size_t config_bytes, const uint8_t *signature,
                          size_t signature_bytes);

/* Fires the triggers {"custom": {"name": name}}. */
int tracetee_trigger(const char *name);

/*
 * Opens the window with this id, which the configuration declares with "opens": "manual". While another
 * window is captured, the request waits until that has ended; the capture then has the note "waited N ms
 * for window ID" and the members "waited_ms" and "waited_for". One request waits at a time. A window that is
 * open stays open.
 *
 * The answer is known at once. Only while the agent starts, or carries out an earlier call, does the
 * call wait, at most 100 ms.
 *
 * Returns 0 if records of the window will be captured. Errors: also REFUSED. Later refusals are in "control"."last_refused"
 * of tracetee_health: another process of the app took the last capture of a budget at the same moment, or the recorder has
 * no memory.
 */
int tracetee_open_window(const char *window);

/*
 * Closes the window that tracetee_open_window opened; its capture is kept. Errors: also REFUSED, if the window was still
 * waiting for another one: it then does not open.
 */
int tracetee_close_window(const char *window);

/* Reports that the system is low on memory: fires the triggers {"low_memory": {}}. */
int tracetee_low_memory(void);

/*
 * Sets the display's refresh rate, from which triggers compute the frame period. 60 Hz until the
 * first call.
 *
 * hz: 1 to 1000; another rate is ignored.
 */
void tracetee_set_refresh_rate(double hz);

/*
 * Sets the name of the screen that the app shows. Jank reports group frames by screen. Writes an
 * instant "screen:NAME" to the trace.
 *
 * name: the kind of the screen ("Product", not "Product 123"), at most 100 characters; longer names are
 * cut. After 200 distinct names in a process, further ones are replaced by "(other)", and counted in
 * "control"."other_screens" of tracetee_health. It goes into captures unredacted: put no user data into it.
 *
 * Returns 0. Errors: ARGUMENT.
 */
int tracetee_set_screen(const char *name);

/*
 * Watches the main loop, for the triggers {"blocked": {}}.
 *
 * ping: called with context once a second, on the agent's thread. It must post a task to the main
 * loop that calls tracetee_main_is_alive(), and must call no other function of this header. NULL ends
 * the watch.
 * context: must stay valid until a second after the watch has ended.
 */
void tracetee_watch_main(void (*ping)(void *), void *context);

/* Answers a ping of tracetee_watch_main. Call it on the main loop. */
void tracetee_main_is_alive(void);

/*
 * Records the user's consent to captures being made and sent. When it is withdrawn, the open capture is discarded, waiting
 * captures are deleted, and nothing is recorded or sent. The answer persists across restarts. Returns and fails like
 * tracetee_trigger.
 */
int tracetee_set_consent(bool given);

/*
 * Sets the state of the device's network and power, which decides whether captures may be sent.
 *
 * net_json: a JSON object; a missing "network" means metered, a missing flag means false:
 *   {"network": "none", "metered" or "unmetered", "roaming": false, "charging": false,
 *    "battery_percent": 80, "power_save": false}
 *
 * Returns and fails like tracetee_trigger; also CONFIG.
 */
int tracetee_set_network(const char *net_json);

/* ---- Uploads by the app's own HTTP client ---- */

/*
 * One HTTP request. Send it exactly once, unchanged, and follow no redirect. Its pointers are valid
 * until the tracetee_send that received it returns.
 */
typedef struct tracetee_request {
    const char *method;
    const char *url;
    const char *headers;       /* lines "Name: value\n" */
    const char *body_path;     /* the file that is the body; NULL if body is */
    const uint8_t *body;       /* the body; NULL if body_path is set or there is no body */
    uint64_t body_bytes;       /* size of the body, bytes */
    uint64_t timeout_ms;       /* limit for the whole exchange, ms */
    uint64_t max_answer_bytes; /* limit for the answer's body, bytes; a larger one counts as broken */
} tracetee_request;

/* Receives the answer to one request, see tracetee_respond. */
typedef struct tracetee_response tracetee_response;

/* tracetee_send: an answer of any status arrived, and tracetee_respond was called. */
#define TRACETEE_SENT 0
/* tracetee_send: nothing was sent (no network, unknown host, untrusted certificate). */
#define TRACETEE_UNREACHABLE 1
/* tracetee_send: the exchange broke off later; the server may or may not have the request. */
#define TRACETEE_BROKEN 2

/*
 * Sends one request with the app's HTTP client. tracetee_upload calls it on the thread that called
 * tracetee_upload, with the same user pointer.
 *
 * Returns TRACETEE_SENT, TRACETEE_UNREACHABLE or TRACETEE_BROKEN.
 */
typedef int (*tracetee_send)(const tracetee_request *request, tracetee_response *response, void *user);

/*
 * Passes the answer to tracetee. Call it from within a tracetee_send, once.
 *
 * response: the argument of that tracetee_send.
 * headers: lines "Name: value\n"; NULL for none. body: body_bytes bytes; NULL for none. Both are copied.
 */
void tracetee_respond(tracetee_response *response, int status, const char *headers,
                      const uint8_t *body, size_t body_bytes);

/*
 * Sends waiting captures with the app's HTTP client: fetches the configuration if that is due, sends
 * captures, then the loss report, and stops at the first failure.
 *
 * Works on the calling thread, possibly for minutes: call it where the platform runs background work (on Android a Worker
 * with a network constraint), never on a thread that draws. The calling thread is not recorded during the call.
 *
 * net_json: as for tracetee_set_network; NULL keeps the last state.
 * send, user: the app's HTTP client and its argument.
 * buffer, size: receive, as in tracetee_health, a JSON object:
 *   "delivered"  ids of the captures that arrived
 *   "held"       why captures still wait, or null
 *   "again_s" seconds until the next call is useful
 *   "status"     as "upload" of the health report
 *
 * Returns the length of the JSON text. Errors: STATE (the agent is not installed, or without
 * "upload"), CONFIG, ARGUMENT.
 */
int tracetee_upload(const char *net_json, tracetee_send send, void *user, char *buffer, size_t size);

/* ---- Your own instrumentation ---- */

/*
 * These functions write your own records, as android.os.Trace does; they also work without libcutils, and with any tags.
 * While nothing is recorded, a call costs a load and a branch.
 *
 * Names are cut at 1000 bytes; NULL is an empty name. cookie distinguishes asynchronous slices of the same name, or of the
 * same track.
 */

/*
 * Returns true while records are taken: from the moment the hooks are in place and the tags are
 * forced (Java's copy too) until just before the tags are restored. After tracetee_install also while
 * the agent reads its configuration: your own records are taken then, and discarded if it forbids them.
 */
bool tracetee_is_recording(void);

/* Begins a section of the calling thread. Sections nest. */
void tracetee_begin_section(const char *name);

/* Ends the section that the calling thread began last. */
void tracetee_end_section(void);

/* Begins an asynchronous slice; another thread may end it. */
void tracetee_begin_async(const char *name, int32_t cookie);

/* Ends the asynchronous slice with this name and cookie. */
void tracetee_end_async(const char *name, int32_t cookie);

/* Begins an asynchronous slice on the track of this name. */
void tracetee_begin_track(const char *track, const char *name, int32_t cookie);

/* Ends the slice with this cookie on the track. */
void tracetee_end_track(const char *track, int32_t cookie);

/* Sets the counter of this name to value. */
void tracetee_counter(const char *name, int64_t value);

/* Marks a moment on the calling thread. */
void tracetee_instant(const char *name);

/* ---- Records with details ---- */

/* tracetee_arg: value.string, cut at 500 bytes. */
#define TRACETEE_STRING 0
/* tracetee_arg: value.integer. */
#define TRACETEE_INTEGER 1
/* tracetee_arg: value.real. */
#define TRACETEE_REAL 2
/* tracetee_arg: value.boolean. */
#define TRACETEE_BOOLEAN 3

/* An argument of a record. */
typedef struct tracetee_arg {
    const char *key; /* cut at 100 bytes */
    int type;        /* TRACETEE_STRING … */
    union {
        const char *string;
        int64_t integer;
        double real;
        bool boolean;
    } value;
} tracetee_arg;

/* tracetee_flow: the flow begins at the record. */
#define TRACETEE_FLOW_BEGIN 0
/* tracetee_flow: the flow passes through the record. */
#define TRACETEE_FLOW_STEP 1
/* tracetee_flow: the flow ends at the record. */
#define TRACETEE_FLOW_END 2

/* A point of a flow, an arrow that viewers draw from record to record. */
typedef struct tracetee_flow {
    int point;   /* TRACETEE_FLOW_BEGIN … */
    uint64_t id; /* any number, unique in the process */
} tracetee_flow;

/*
 * Details of a record. Set unused fields to 0. All details of a record take at most 1000 bytes; the trace counts those
 * beyond ("left_out"). The library keeps no pointer after the call.
 */
typedef struct tracetee_details {
    const char *category; /* cut at 100 bytes; NULL for none */
    const tracetee_arg *args;
    size_t arg_count;
    const tracetee_flow *flows;
    size_t flow_count;
    bool thread_time; /* add the thread's processor time (a system call); of a section, to begin and end */
} tracetee_details;

/*
 * The functions above, with details; details may be NULL. An active system trace gets the record without its details.
 * Details of an end are added to those of its begin.
 */
void tracetee_begin_section_with(const char *name, const tracetee_details *details);
void tracetee_end_section_with(const tracetee_details *details);
void tracetee_begin_async_with(const char *name, int32_t cookie, const tracetee_details *details);
void tracetee_end_async_with(const char *name, int32_t cookie, const tracetee_details *details);
void tracetee_begin_track_with(const char *track, const char *name, int32_t cookie,
                               const tracetee_details *details);
void tracetee_end_track_with(const char *track, int32_t cookie, const tracetee_details *details);
void tracetee_instant_with(const char *name, const tracetee_details *details);

/*
 * Begins a section named after the enclosing function; use it as a statement. The section ends with the block, however the
 * block is left. For GCC and Clang; once per block.
 */
#define TRACETEE_FUNCTION_SECTION                                                                  \
    __attribute__((cleanup(tracetee_end_section_with), unused))                                    \
    const tracetee_details tracetee_function_section = {                                           \
        (tracetee_begin_section(__func__), (const char *)NULL), NULL, 0, NULL, 0, false}

/* Marks a moment on the track of this name, which belongs to no thread. */
void tracetee_track_instant(const char *track, const char *name, const tracetee_details *details);

/*
 * Records a section of the calling thread that has ended. Times in the wrong order are swapped and counted; an end in the
 * future becomes now. In the trace it is a section if it nests in the thread's sections, otherwise an asynchronous slice.
 * System traces do not get it.
 *
 * begin_ns, end_ns: times from tracetee_now_ns.
 */
void tracetee_complete(const char *name, uint64_t begin_ns, uint64_t end_ns,
                       const tracetee_details *details);

/* Returns the time of CLOCK_BOOTTIME, ns. */
uint64_t tracetee_now_ns(void);

/*
 * Returns true while a recording wants samples of the callstack of the process's first thread, according to "stacks" in the
 * remote configuration for this device. Your own sampler calls it before each sample and writes the sample with
 * tracetee_instant_with in the format of docs/TRACE-FORMAT.md. On Android the Kotlin library samples Java's callstacks.
 *
 * after_ms: set to the time in one frame or message after which the thread is late.
 * max: set to the maximum number of samples in a recording.
 */
bool tracetee_wants_stacks(uint32_t *after_ms, uint32_t *max);

/*
 * Sets a counter to a value with a fraction. Several series of one counter are the counters "NAME.SERIES".
 *
 * series: NULL for the counter itself.
 */
void tracetee_counter_real(const char *name, const char *series, double value);

/* ---- Diagnosis ---- */

/*
 * Tests the functions that every capture needs on this device: leaves a guard as after a panic, locks a file in directory,
 * writes a compressed trace of 600 KB there, reads it back and compares. Takes a few milliseconds, leaves no file and does
 * not touch a running capture. For debug builds and tests.
 *
 * directory: a directory that the process may write to.
 *
 * Returns 0. Errors: IO, ARGUMENT.
 */
int tracetee_self_test(const char *directory);

/*
 * Writes the message of the last error on any thread to buffer, as tracetee_health does; an empty string if there was no
 * error.
 *
 * Returns the length of the message.
 */
int tracetee_last_error(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif
