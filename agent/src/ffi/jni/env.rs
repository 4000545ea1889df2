//! The few functions of JNI's table that the natives need, so that `mod.rs` has no pointer to follow.
//!
//! Built on the crate `jni-sys`: the crate `jni` would add 137 KB that match exceptions to classes (arm64), a
//! ninth of the library. Each call that may throw clears the exception and returns its text.

#![allow(clippy::multiple_unsafe_ops_per_block, reason = "one call through a table is two")]

use jni_sys::{
    JNI_EDETACHED, JNI_OK, JNI_VERSION_1_6, JNIEnv, JNINativeMethod, JavaVM, JavaVMAttachArgs,
    jbyteArray, jclass, jint, jlong, jlongArray, jmethodID, jobject, jobjectArray, jstring, jvalue,
};
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use tracetee_os::guard;

/// The process's virtual machine; there is one.
static VM: AtomicPtr<JavaVM> = AtomicPtr::new(std::ptr::null_mut());

/// The thread's interface to the virtual machine, valid as long as a native call or [`attached`] lasts.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(super) struct Env(*mut JNIEnv);

/// Calls a function of the table.
macro_rules! table {
    ($env:expr, $function:ident $(, $argument:expr)*) => {
        // SAFETY: this is the calling thread's table, valid while an `Env` lives. The arguments are as the function's
        // documentation requires, and references belong to this call.
        unsafe { ((**$env.0).v1_6.$function)($env.0 $(, $argument)*) }
    };
}

/// The text of an exception.
#[derive(Debug)]
pub(super) struct Thrown(pub(super) String);

impl Env {
    /// Reads a string; `None` for null.
    pub(super) fn text(self, string: jstring) -> Option<String> {
        if string.is_null() {
            return None;
        }
        let len = table!(self, GetStringLength, string);
        let mut units = vec![0u16; usize::try_from(len).ok()?];
        table!(self, GetStringRegion, string, 0, len, units.as_mut_ptr());
        Some(String::from_utf16_lossy(&units))
    }

    /// Makes a string; null if there is no memory for it.
    pub(super) fn new_text(self, text: &str) -> jstring {
        let units: Vec<u16> = text.encode_utf16().collect();
        table!(self, NewString, units.as_ptr(), size(units.len()))
    }

    /// Reads an array of bytes; `None` for null.
    pub(super) fn bytes(self, array: jbyteArray) -> Option<Vec<u8>> {
        if array.is_null() {
            return None;
        }
        let len = table!(self, GetArrayLength, array);
        let mut bytes = vec![0u8; usize::try_from(len).ok()?];
        table!(self, GetByteArrayRegion, array, 0, len, bytes.as_mut_ptr().cast());
        Some(bytes)
    }

    /// Copies bytes of an array from `offset` on; `false` if it has fewer.
    pub(super) fn copy_bytes(self, array: jbyteArray, offset: jint, to: &mut [u8]) -> bool {
        if array.is_null() {
            return false;
        }
        let len = size(to.len());
        let has = table!(self, GetArrayLength, array);
        if offset < 0 || offset.checked_add(len).is_none_or(|end| end > has) {
            return false;
        }
        table!(self, GetByteArrayRegion, array, offset, len, to.as_mut_ptr().cast());
        true
    }

    /// Makes an array of bytes; null if there is no memory for it.
    /// Copies the first numbers of an array; `false` if it has fewer.
    pub(super) fn copy_longs(self, array: jlongArray, to: &mut [i64]) -> bool {
        if array.is_null() {
            return false;
        }
        table!(self, GetLongArrayRegion, array, 0, size(to.len()), to.as_mut_ptr());
        self.thrown().is_none()
    }

    pub(super) fn new_bytes(self, bytes: &[u8]) -> jbyteArray {
        let array = table!(self, NewByteArray, size(bytes.len()));
        if !array.is_null() {
            let len = size(bytes.len());
            table!(self, SetByteArrayRegion, array, 0, len, bytes.as_ptr().cast());
        }
        array
    }

    /// Reads an element of an array; null if there is none.
    pub(super) fn element(self, array: jobjectArray, index: jint) -> jobject {
        let element = table!(self, GetObjectArrayElement, array, index);
        self.clear();
        element
    }

    /// Finds a class by its name with slashes; null if there is none.
    pub(super) fn class(self, name: &CStr) -> jclass {
        let class = table!(self, FindClass, name.as_ptr());
        self.clear();
        class
    }

    /// Registers natives; `false` if the class does not declare one of them.
    pub(super) fn register(self, class: jclass, natives: &[JNINativeMethod]) -> bool {
        let said = table!(self, RegisterNatives, class, natives.as_ptr(), size(natives.len()));
        self.clear();
        said == JNI_OK
    }

    /// Sets a static `long`, if there is one of that name.
    pub(super) fn set_static_long(self, class: jclass, name: &CStr, value: jlong) {
        let field = table!(self, GetStaticFieldID, class, name.as_ptr(), c"J".as_ptr());
        self.clear();
        if !field.is_null() {
            table!(self, SetStaticLongField, class, field, value);
        }
    }

    /// Sets a static `boolean`, if there is one of that name.
    pub(super) fn set_static_boolean(self, class: jclass, name: &CStr, value: bool) {
        let field = table!(self, GetStaticFieldID, class, name.as_ptr(), c"Z".as_ptr());
        self.clear();
        if !field.is_null() {
            table!(self, SetStaticBooleanField, class, field, value);
        }
    }

    /// Calls a method that returns an object.
    pub(super) fn call(
        self,
        object: jobject,
        name: &CStr,
        signature: &CStr,
        arguments: &[jvalue],
    ) -> Result<jobject, Thrown> {
        let method = self.method(object, name, signature)?;
        let given = table!(self, CallObjectMethodA, object, method, arguments.as_ptr());
        let thrown = self.thrown();
        // The method may have called the agent.
        guard::leave_if_broken();
        thrown.map_or(Ok(given), Err)
    }

    /// Calls a method that returns nothing.
    pub(super) fn call_void(
        self,
        object: jobject,
        name: &CStr,
        signature: &CStr,
        arguments: &[jvalue],
    ) -> Result<(), Thrown> {
        let method = self.method(object, name, signature)?;
        table!(self, CallVoidMethodA, object, method, arguments.as_ptr());
        let thrown = self.thrown();
        // As above.
        guard::leave_if_broken();
        thrown.map_or(Ok(()), Err)
    }

    /// Calls a static method that returns nothing, if there is one. Ignores its exceptions.
    pub(super) fn call_static(
        self,
        class: jclass,
        name: &CStr,
        signature: &CStr,
        arguments: &[jvalue],
    ) {
        let method = table!(self, GetStaticMethodID, class, name.as_ptr(), signature.as_ptr());
        self.clear();
        if !method.is_null() {
            table!(self, CallStaticVoidMethodA, class, method, arguments.as_ptr());
            self.clear();
            // The method may have called the agent.
            guard::leave_if_broken();
        }
    }

    fn method(self, object: jobject, name: &CStr, signature: &CStr) -> Result<jmethodID, Thrown> {
        let class = table!(self, GetObjectClass, object);
        let method = table!(self, GetMethodID, class, name.as_ptr(), signature.as_ptr());
        table!(self, DeleteLocalRef, class);
        match self.thrown() {
            Some(thrown) => Err(thrown),
            None if method.is_null() => {
                Err(Thrown(format!("no method {}", name.to_string_lossy())))
            }
            None => Ok(method),
        }
    }

    /// Clears the pending exception and returns it.
    fn thrown(self) -> Option<Thrown> {
        let throwable = table!(self, ExceptionOccurred);
        if throwable.is_null() {
            return None;
        }
        table!(self, ExceptionClear);
        let class = table!(self, GetObjectClass, throwable);
        let signature = c"()Ljava/lang/String;";
        let method = table!(self, GetMethodID, class, c"toString".as_ptr(), signature.as_ptr());
        let text = if method.is_null() {
            std::ptr::null_mut()
        } else {
            table!(self, CallObjectMethodA, throwable, method, std::ptr::null())
        };
        self.clear();
        Some(Thrown(self.text(text).unwrap_or_default()))
    }

    /// Clears the pending exception.
    pub(super) fn clear(self) {
        table!(self, ExceptionClear);
    }

    /// Calls `call` and frees the local references that it makes. After a panic in it, the machine frees them when
    /// the native returns, or the thread is detached.
    pub(super) fn in_frame<T>(self, call: impl FnOnce() -> T) -> T {
        let pushed = table!(self, PushLocalFrame, 16);
        let given = call();
        if pushed == JNI_OK {
            table!(self, PopLocalFrame, std::ptr::null_mut());
        }
        given
    }

    /// Makes a global reference, valid on all threads; null for null.
    pub(super) fn keep(self, object: jobject) -> jobject {
        table!(self, NewGlobalRef, object)
    }

    /// Deletes a reference that [`Env::keep`] made.
    pub(super) fn give_back(self, kept: jobject) {
        table!(self, DeleteGlobalRef, kept);
    }
}

/// Notes the virtual machine that loads the library, and returns the loading thread's interface to it.
///
/// # Safety
/// `vm` is the virtual machine's own pointer.
pub(super) unsafe fn of_machine(vm: *mut JavaVM) -> Option<Env> {
    // ORDERING: Release, pairs with the Acquire in `attached`.
    VM.store(vm, Ordering::Release);
    let (said, env) = env_of(vm);
    (said == JNI_OK).then_some(env)
}

/// Calls `call` on a thread of the app or the agent, which is attached during the call.
pub(super) fn attached(call: impl FnOnce(Env)) {
    // ORDERING: Acquire; see `of_machine`.
    let vm = VM.load(Ordering::Acquire);
    if vm.is_null() {
        return;
    }
    match env_of(vm) {
        (JNI_OK, env) => call(env),
        (JNI_EDETACHED, mut env) => {
            let mut name = *b"tracetee\0";
            let mut arguments = JavaVMAttachArgs {
                version: JNI_VERSION_1_6,
                name: name.as_mut_ptr().cast(),
                group: std::ptr::null_mut(),
            };
            let arguments = (&raw mut arguments).cast::<c_void>();
            let to = (&raw mut env.0).cast::<*mut c_void>();
            // SAFETY: the machine's table; it is attached as a daemon, so that it does not delay exit.
            let said = unsafe { ((**vm).v1_4.AttachCurrentThreadAsDaemon)(vm, to, arguments) };
            if said == JNI_OK {
                let done = guard::catch(|| call(env));
                // Detaches after a panic as well: ART ends the process if a thread ends while attached.
                // SAFETY: attached above, and no Java frame is on this thread.
                unsafe { ((**vm).v1_4.DetachCurrentThread)(vm) };
                if let Err(caught) = done {
                    caught.resume();
                }
            }
        }
        _ => {}
    }
}

fn env_of(vm: *mut JavaVM) -> (jint, Env) {
    let mut env = Env(std::ptr::null_mut());
    let to = (&raw mut env.0).cast::<*mut c_void>();
    // SAFETY: the machine's table.
    let said = unsafe { ((**vm).v1_4.GetEnv)(vm, to, JNI_VERSION_1_6) };
    (said, env)
}

/// Converts a length to Java's 31 bits; nothing longer is made here.
fn size(len: usize) -> jint {
    jint::try_from(len).unwrap_or(jint::MAX)
}
