//! A part of a fleet that is looked at.

use super::observations::Traits;
use crate::table::Text;
use tracetee_trace::quoted;

/// The devices and the screen that a guard looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    /// The screen; all of them if there is none.
    pub screen: Option<Text>,
    /// The model.
    pub model: Option<Text>,
    /// The Android API level.
    pub api: Option<u64>,
    /// The refresh rate, Hz.
    pub hz: Option<u64>,
}

impl Segment {
    /// Returns true if a device is part of it.
    #[must_use]
    pub fn has(&self, traits: &Traits) -> bool {
        self.model.as_ref().is_none_or(|model| *model == traits.model)
            && self.api.is_none_or(|api| api == traits.api)
            && self.hz.is_none_or(|hz| hz == traits.hz)
    }

    /// Reads `screen=SCREEN`, `model=MODEL`, `api=LEVEL` and `hz=HZ`, separated by commas.
    ///
    /// # Errors
    /// A text that says which part is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut segment = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let wrong = || {
                format!("{} is not screen=SCREEN, model=MODEL, api=LEVEL or hz=HZ", quoted(part))
            };
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let number = || value.parse().map_err(|_| wrong());
            match name {
                "screen" => segment.screen = Some(value.into()),
                "model" => segment.model = Some(value.into()),
                "api" => segment.api = Some(number()?),
                "hz" => segment.hz = Some(number()?),
                _ => return Err(wrong()),
            }
        }
        Ok(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_the_devices_that_it_says() {
        let traits = Traits { model: "Pixel 7".into(), api: 34, ..Traits::default() };
        for (text, expected) in [
            ("", true),
            ("model=Pixel 7,api=34", true),
            ("api=29,screen=A", false),
            ("hz=120", false),
        ] {
            assert_eq!(Segment::parse(text).unwrap().has(&traits), expected, "{text}");
        }
        for text in ["Feed", "api=new", "colour=red", "screen=A,=,"] {
            assert!(Segment::parse(text).unwrap_err().contains("is not screen=SCREEN"), "{text}");
        }
    }
}
