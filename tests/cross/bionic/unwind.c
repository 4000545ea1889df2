/*
 * Stands in for libunwind: nothing in the library unwinds (`panic = "abort"`). std's own panic hook, which the agent
 * replaces, still refers to these to print a backtrace; here the stack has no frames.
 */
#define HIDDEN __attribute__((visibility("hidden")))
enum { END_OF_STACK = 5 };

HIDDEN int _Unwind_Backtrace(void *trace, void *argument) {
    (void)trace, (void)argument;
    return END_OF_STACK;
}
HIDDEN unsigned long _Unwind_GetIP(void *context) {
    (void)context;
    return 0;
}
HIDDEN unsigned long _Unwind_GetIPInfo(void *context, int *before) {
    (void)context;
    *before = 0;
    return 0;
}
HIDDEN unsigned long _Unwind_GetCFA(void *context) {
    (void)context;
    return 0;
}
HIDDEN void *_Unwind_FindEnclosingFunction(void *address) {
    (void)address;
    return 0;
}
#ifdef __arm__
/* GetIP and GetCFA read registers by this one. */
HIDDEN int _Unwind_VRS_Get(void *context, int class, unsigned number, int representation, void *value) {
    (void)context, (void)class, (void)number, (void)representation;
    *(unsigned *)value = 0;
    return 0;
}
HIDDEN int _Unwind_VRS_Set(void *context, int class, unsigned number, int representation, void *value) {
    (void)context, (void)class, (void)number, (void)representation, (void)value;
    return 0;
}
HIDDEN int __gnu_unwind_frame(void *exception, void *context) {
    (void)exception, (void)context;
    return END_OF_STACK;
}
#endif
/* The personality that std defines refers to these; nothing calls it. */
HIDDEN unsigned long _Unwind_GetLanguageSpecificData(void *context) {
    (void)context;
    return 0;
}
HIDDEN unsigned long _Unwind_GetRegionStart(void *context) {
    (void)context;
    return 0;
}
HIDDEN unsigned long _Unwind_GetTextRelBase(void *context) {
    (void)context;
    return 0;
}
HIDDEN unsigned long _Unwind_GetDataRelBase(void *context) {
    (void)context;
    return 0;
}
HIDDEN void _Unwind_SetGR(void *context, int index, unsigned long value) {
    (void)context, (void)index, (void)value;
}
HIDDEN void _Unwind_SetIP(void *context, unsigned long value) {
    (void)context, (void)value;
}
