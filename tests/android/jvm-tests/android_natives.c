/*
 * Stand-in for the natives of android.os.Trace and of what it needs (SystemProperties, Log, VMRuntime) on a JVM:
 * what AOSP's android_os_Trace.cpp of the release ATRACE_API does, over the stand-in libcutils beside it.
 * Written for this project from the description in ../shared/facts; it is not AOSP's code.
 */
#include "cutils/trace.h"

#include <jni.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int __system_property_get(const char *name, char *value);

/* As there: what would end a record or a field becomes a space. */
static void with_text(JNIEnv *env, jstring string, char *text, size_t size) {
    text[0] = 0;
    if (!string) return;
    jsize units = (*env)->GetStringLength(env, string), bytes = (*env)->GetStringUTFLength(env, string);
    if ((size_t)bytes >= size) units = 0;
    (*env)->GetStringUTFRegion(env, string, 0, units, text);
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '|') *c = ' ';
}
#define TEXT(name, string) char name[4096]; with_text(env, string, name, sizeof name)

static jlong get_tags(JNIEnv *env, jclass class) {
    (void)env, (void)class;
    return (jlong)atrace_is_tag_enabled(~0ull);
}
static jboolean is_enabled(JNIEnv *env, jclass class, jlong tag) {
    (void)env, (void)class;
    return atrace_is_tag_enabled(tag) != 0;
}
static void begin(JNIEnv *env, jclass class, jlong tag, jstring name) {
    (void)class;
    TEXT(text, name);
    atrace_begin(tag, text);
}
static void end(JNIEnv *env, jclass class, jlong tag) {
    (void)env, (void)class;
    atrace_end(tag);
}
static void async_begin(JNIEnv *env, jclass class, jlong tag, jstring name, jint cookie) {
    (void)class;
    TEXT(text, name);
    if (atrace_is_tag_enabled(tag)) atrace_async_begin_body(text, cookie);
}
static void async_end(JNIEnv *env, jclass class, jlong tag, jstring name, jint cookie) {
    (void)class;
    TEXT(text, name);
    if (atrace_is_tag_enabled(tag)) atrace_async_end_body(text, cookie);
}
static void counter(JNIEnv *env, jclass class, jlong tag, jstring name, jint value) {
    (void)class;
    TEXT(text, name);
    if (atrace_is_tag_enabled(tag)) atrace_int_body(text, value);
}
static void counter64(JNIEnv *env, jclass class, jlong tag, jstring name, jlong value) {
    (void)class;
    TEXT(text, name);
    if (atrace_is_tag_enabled(tag)) atrace_int64_body(text, value);
}
#if ATRACE_API >= 33
static void instant(JNIEnv *env, jclass class, jlong tag, jstring name) {
    (void)class;
    TEXT(text, name);
    if (atrace_is_tag_enabled(tag)) atrace_instant_body(text);
}
static void track_begin(JNIEnv *env, jclass class, jlong tag, jstring track, jstring name, jint cookie) {
    (void)class;
    TEXT(on, track);
    TEXT(text, name);
    if (atrace_is_tag_enabled(tag)) atrace_async_for_track_begin_body(on, text, cookie);
}
#endif
static void set(JNIEnv *env, jclass class, jboolean on) {
    (void)env, (void)class, (void)on;
    atrace_update_tags();
}
static void nothing(JNIEnv *env, jclass class) {
    (void)env, (void)class;
}

static int property(JNIEnv *env, jstring name, char *value) {
    char key[256];
    with_text(env, name, key, sizeof key);
    value[0] = 0;
    if (strncmp(key, "ro.product.cpu.abilist", 22) == 0) return sprintf(value, "x86_64");
    if (strcmp(key, "ro.build.version.all_codenames") == 0) return sprintf(value, "REL");
    return __system_property_get(key, value);
}
static jstring get(JNIEnv *env, jclass class, jstring name, jstring otherwise) {
    (void)class;
    char value[92];
    return property(env, name, value) > 0 ? (*env)->NewStringUTF(env, value) : otherwise;
}
static jstring get_or_empty(JNIEnv *env, jclass class, jstring name) {
    return get(env, class, name, (*env)->NewStringUTF(env, ""));
}
static jint get_int(JNIEnv *env, jclass class, jstring name, jint otherwise) {
    (void)class;
    char value[92];
    return property(env, name, value) > 0 ? atoi(value) : otherwise;
}
static jlong get_long(JNIEnv *env, jclass class, jstring name, jlong otherwise) {
    (void)class;
    char value[92];
    return property(env, name, value) > 0 ? atoll(value) : otherwise;
}
static jboolean get_boolean(JNIEnv *env, jclass class, jstring name, jboolean otherwise) {
    (void)env, (void)class, (void)name;
    return otherwise;
}

static jboolean is_64_bit(JNIEnv *env, jobject runtime) {
    (void)env, (void)runtime;
    return JNI_TRUE;
}

/* A binder without anything native behind it. */
static jlong no_holder(JNIEnv *env, jclass class) {
    (void)env, (void)class;
    return 0;
}

static jlong elapsed_ms(JNIEnv *env, jclass class) {
    (void)env, (void)class;
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (jlong)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static jint print(JNIEnv *env, jclass class, jint buffer, jint priority, jstring tag, jstring text) {
    (void)class, (void)buffer, (void)priority;
    char who[256], what[4096];
    with_text(env, tag, who, sizeof who);
    with_text(env, text, what, sizeof what);
    return fprintf(stderr, "log %s: %s\n", who, what);
}

/* One by one: a release has some of them. */
static void give(JNIEnv *env, const char *class, const char *name, const char *signature, void *function) {
    jclass found = (*env)->FindClass(env, class);
    if (found) {
        JNINativeMethod method = {(char *)name, (char *)signature, function};
        (*env)->RegisterNatives(env, found, &method, 1);
    }
    (*env)->ExceptionClear(env);
}

JNIEXPORT jint JNI_OnLoad(JavaVM *vm, void *reserved) {
    (void)reserved;
    JNIEnv *env;
    if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
    const char *properties = "android/os/SystemProperties", *trace = "android/os/Trace";
#define STRING "Ljava/lang/String;"
    give(env, properties, "native_get", "(" STRING ")" STRING, get_or_empty);
    give(env, properties, "native_get", "(" STRING STRING ")" STRING, get);
    give(env, properties, "native_get_int", "(" STRING "I)I", get_int);
    give(env, properties, "native_get_long", "(" STRING "J)J", get_long);
    give(env, properties, "native_get_boolean", "(" STRING "Z)Z", get_boolean);
    give(env, properties, "native_add_change_callback", "()V", nothing);
    /* android.os.Build asks, up to 25. */
    give(env, "dalvik/system/VMRuntime", "is64Bit", "()Z", is_64_bit);
    give(env, "android/os/SystemClock", "elapsedRealtime", "()J", elapsed_ms);
    give(env, "android/os/Binder", "getNativeBBinderHolder", "()J", no_holder);
    give(env, "android/util/Log", "println_native", "(II" STRING STRING ")I", print);
    give(env, trace, "nativeGetEnabledTags", "()J", get_tags);
    give(env, trace, "nativeIsTagEnabled", "(J)Z", is_enabled);
    give(env, trace, "nativeTraceBegin", "(J" STRING ")V", begin);
    give(env, trace, "nativeTraceEnd", "(J)V", end);
    give(env, trace, "nativeAsyncTraceBegin", "(J" STRING "I)V", async_begin);
    give(env, trace, "nativeAsyncTraceEnd", "(J" STRING "I)V", async_end);
    give(env, trace, "nativeTraceCounter", "(J" STRING "I)V", counter);
    give(env, trace, "nativeTraceCounter", "(J" STRING "J)V", counter64);
    give(env, trace, "nativeSetAppTracingAllowed", "(Z)V", set);
    give(env, trace, "nativeSetTracingEnabled", "(Z)V", set);
#if ATRACE_API >= 33
    give(env, trace, "nativeInstant", "(J" STRING ")V", instant);
    give(env, trace, "nativeAsyncTraceForTrackBegin", "(J" STRING STRING "I)V", track_begin);
#endif
    return JNI_VERSION_1_6;
}
