/*
 * Stands in for the NDK's crtbegin_so.o: the first object of a shared library.
 *
 * bionic exports neither atexit nor a handle of the library: each library brings its own, so that its exit
 * handlers are run when it is unloaded.
 */
void __cxa_finalize(void *library);
int __cxa_atexit(void (*function)(void *), void *argument, void *library);

__attribute__((visibility("hidden"))) void *__dso_handle = &__dso_handle;

__attribute__((visibility("hidden"))) int atexit(void (*function)(void)) {
    /* An argument more than the function takes does no harm on any of the four ABIs; the NDK does the same. */
    return __cxa_atexit((void (*)(void *))function, 0, &__dso_handle);
}

__attribute__((destructor)) static void on_unload(void) {
    __cxa_finalize(&__dso_handle);
}
