//! The categories of atrace's tags: libcutils' tag word has a bit for each.

use crate::json::quoted;

/// Tag names and their bits (`atrace --list_categories`, and `app`, which atrace sets by `-a`).
pub const CATEGORIES: [(&str, u32); 27] = [
    ("gfx", 1),
    ("input", 2),
    ("view", 3),
    ("webview", 4),
    ("wm", 5),
    ("am", 6),
    ("sm", 7),
    ("audio", 8),
    ("video", 9),
    ("camera", 10),
    ("hal", 11),
    ("app", 12),
    ("res", 13),
    ("dalvik", 14),
    ("rs", 15),
    ("bionic", 16),
    ("power", 17),
    ("pm", 18),
    ("ss", 19),
    ("database", 20),
    ("network", 21),
    ("adb", 22),
    ("vibrator", 23),
    ("aidl", 24),
    ("nnapi", 25),
    ("rro", 26),
    ("thermal", 27),
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
        tags |= match CATEGORIES.iter().find(|(known, _)| known == name) {
            Some((_, bit)) => 1 << bit,
            None if name == "all" => ALL_TAGS,
            None => {
                let known: Vec<_> = CATEGORIES.iter().map(|(name, _)| *name).collect();
                let known = known.join(", ");
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
