/* An app's library: calls atrace through its PLT, as the fast path's bench needs it. */
void atrace_begin_body(const char *name);

void call_atrace(long records, const char *name) {
    for (long i = 0; i < records; i++) atrace_begin_body(name);
}
