//! libcutils' side of tracing in this process: its tag words and its marker descriptor.
//!
//! [`tags`] forces the tag words on and gives the system's values back; `tag_words` keeps what
//! signal handlers and forked children need of them in atomics; `marker_fd` recognises
//! descriptors of a `trace_marker`.

pub(crate) mod marker_fd;
pub(crate) mod tag_words;
pub(crate) mod tags;
