//! What the device says of its network and its power. The app knows; the uploader is told.

use serde::{Deserialize, Serialize};

/// The network that is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// None.
    None,
    /// One that may cost somebody money. What is not known is taken for it.
    #[default]
    Metered,
    /// One that costs nothing.
    Unmetered,
}

/// The state of the device, at the moment of the pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetState {
    /// The network.
    pub network: Network,
    /// It is a foreign one.
    pub roaming: bool,
    /// The device charges.
    pub charging: bool,
    /// The battery's charge, percent; `None`: it is not known, or there is none.
    pub battery_percent: Option<u8>,
    /// The user saves power.
    pub power_save: bool,
}

impl NetState {
    /// A machine in a rack or on a desk.
    pub const MAINS: Self = Self {
        network: Network::Unmetered,
        roaming: false,
        charging: true,
        battery_percent: None,
        power_save: false,
    };
}
