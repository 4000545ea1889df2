//! The state of the device's network and power, as the app reports it.

use tracetee_protocol::{record, words};

words! {
    /// The kind of a network.
    pub enum Network {
        /// A network that may cost the user money. One of unknown kind counts as metered.
        Metered = "metered",
        /// A network that costs nothing.
        Unmetered = "unmetered",
        /// No network.
        None = "none",
    }
}

record! {
    /// The state of the device at the moment of a pass.
    #[derive(Copy, Eq)]
    pub struct NetState {
        /// The network.
        pub network: Network = Network::Metered,
        /// True for a foreign network.
        pub roaming: bool = false,
        /// True while the device charges.
        pub charging: bool = false,
        /// The charge of the battery, percent; `None` if it is unknown, or there is no battery.
        pub battery_percent: Option<u8> = None,
        /// True while the user saves power.
        pub power_save: bool = false,
    }
}

impl NetState {
    /// The state of a machine in a rack or on a desk.
    pub const MAINS: Self = Self {
        network: Network::Unmetered,
        roaming: false,
        charging: true,
        battery_percent: None,
        power_save: false,
    };
}
