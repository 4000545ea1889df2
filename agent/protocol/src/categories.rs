//! The categories of atrace's tags: libcutils' tag word has a bit for each.

use crate::json::quoted;

/// Tag names in the order of their bits, from bit 1 on (`atrace --list_categories`, and `app`, which atrace sets by `-a`).
pub const CATEGORIES: [&str; 27] = [
    "gfx", "input", "view", "webview", "wm", "am", "sm", "audio", "video", "camera", "hal", "app",
    "res", "dalvik", "rs", "bionic", "power", "pm", "ss", "database", "network", "adb", "vibrator",
    "aidl", "nnapi", "rro", "thermal",
];

/// The ALWAYS bit, and every category.
pub const ALL_TAGS: u64 = (1 << 28) - 1;

/// The tag word for category names; `all` stands for all of them.
///
/// # Errors
/// A text that names the unknown category, and lists the known ones.
pub fn tag_word(names: &[String]) -> Result<u64, String> {
    let mut tags = 1;
    for name in names {
        tags |= match CATEGORIES.iter().position(|known| known == name) {
            Some(position) => 2 << position,
            None if name == "all" => ALL_TAGS,
            None => {
                let known = CATEGORIES.join(", ");
                return Err(format!("unknown category {}; known are all, {known}", quoted(name)));
            }
        };
    }
    Ok(tags)
}

/// The check of a field with category names.
pub(crate) fn are_known(names: &[String]) -> Result<(), String> {
    tag_word(names).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_become_bits() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(tag_word(&names(&["view", "app"])).unwrap(), 1 | 1 << 3 | 1 << 12);
        assert_eq!(tag_word(&names(&["all"])).unwrap(), (1 << 28) - 1);
        assert!(tag_word(&names(&["veiw"])).unwrap_err().contains("\"veiw\"; known are all, gfx"));
    }
}
