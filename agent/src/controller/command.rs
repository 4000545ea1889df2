//! Commands from app threads to the agent's thread.

use super::on_device_capture::Ask;
use tracetee_uploader::NetState;

/// A request; it waits in a bounded channel.
#[derive(Debug)]
pub(crate) enum Command {
    /// Fires the custom triggers of this name, at this boot time in ns.
    Trigger(String, u64),
    /// Opens the manual window with this id.
    Open(String),
    /// Notes a request for a window that was refused, with the reason.
    NotOpened(String),
    /// Closes the manual window with this id.
    Close(String),
    /// Fires the triggers for low memory: the system has notified the app.
    LowMemory,
    /// Offers a configuration and its signature.
    Offer(Vec<u8>, Vec<u8>),
    /// Takes the windows that the collector requests: JSON, or empty.
    Asks(String),
    /// Records whether the user consents.
    Consent(bool),
    /// Sets the state of network and power.
    Net(NetState),
    /// Starts, dumps or stops a capture for a local user of the device.
    OnDevice(Ask),
    /// Takes how earlier processes ended; answers with the ids of the captures that say so.
    #[cfg(feature = "jni")]
    Exits(Vec<tracetee_protocol::death::Exit>, crate::queue::Sender<Vec<String>>),
}
