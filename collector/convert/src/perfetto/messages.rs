//! The messages of Perfetto that are written or read here. The reader has the table of their fields (`tracetee_trace`,
//! `perfetto/fields.rs`).

use prost::Message;

/// Makes a message of each entry, with the fields that have a type.
macro_rules! messages {
    ($($(#[$doc:meta])* $Message:ident $message:ident {
        $($field:ident = $number:tt $(: ($($how:tt)*) $type:ty)?,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Message)]
            #[allow(dead_code, reason = "some messages are for the reader alone")]
            pub(super) struct $Message {
                $($(#[prost($($how)*, tag = $number)] pub(super) $field: $type,)?)*
            }
        )*
    };
}

tracetee_trace::perfetto_messages!(messages);
