//! The macros, and the parts of their expansion that are the same for all types.

use super::Record;
use crate::json::{Error, Kind, Value};

/// Gives records a method that writes them.
macro_rules! writes {
    ($($name:ident),+) => {$(
        impl $name {
            /// Writes it as JSON.
            #[must_use]
            pub fn to_json(&self) -> String {
                $crate::record::to_json(self)
            }
        }
    )+};
}
pub(crate) use writes;

/// Declares structs with their JSON; see [the module](mod@crate::record).
#[macro_export]
macro_rules! record {
    ($(
        $(#[doc = $about:literal])*
        $(#[derive($($derive:ident),*)])?
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $field_vis:vis $field:ident $([$json:literal])?: $type:ty = $default:expr
                $(; $limit:ident($($arg:tt)*))*
            ),* $(,)?
        }
    )*) => {$(
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq $(, $($derive),*)?)]
        $vis struct $name {
            $($(#[doc = $doc])* $field_vis $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        #[doc(hidden)]
        impl $crate::record::Record for $name {
            fn names(&self) -> &'static str {
                concat!($($crate::record!(@name $field $($json)?), " "),*)
            }

            fn required(&self) -> u128 {
                #[allow(non_camel_case_types, reason = "the names are those of the fields")]
                #[allow(dead_code, reason = "few fields are required")]
                enum Number { $($field),* }
                0 $($(| $crate::record!(@required $limit Number::$field as u128))*)*
            }

            fn read_field(
                &mut self,
                number: usize,
                value: $crate::json::Value<'_>,
            ) -> Result<(), $crate::json::Error> {
                #[allow(non_camel_case_types, reason = "the names are those of the fields")]
                enum Number { $($field),* }
                match number {
                    $(n if n == Number::$field as usize => {
                        $crate::record::Json::read(&mut self.$field, value)
                    })*
                    _ => Ok(()),
                }
            }
        }

        #[doc(hidden)]
        impl $crate::record::Json for $name {
            const HAS_LIMITS: bool = false $(
                || <$type as $crate::record::Json>::HAS_LIMITS
                $(|| $crate::record!(@is_limit $limit))*
            )*;

            fn read(
                &mut self,
                value: $crate::json::Value<'_>,
            ) -> Result<(), $crate::json::Error> {
                $crate::record::read_fields(self, value)
            }

            fn write(&self, out: &mut $crate::json::Writer) {
                out.begin_object();
                $(
                    if !(false $(|| $crate::record!(@omit $limit &self.$field, $($arg)*))*) {
                        out.key($crate::record!(@name $field $($json)?));
                        $crate::record::Json::write(&self.$field, out);
                    }
                )*
                out.end_object();
            }

            fn check(
                &self,
                path: &mut $crate::record::Path,
            ) -> Result<(), $crate::json::Error> {
                let _ = &path;
                $(
                    if <$type as $crate::record::Json>::HAS_LIMITS
                        $(|| $crate::record!(@is_limit $limit))*
                    {
                        let parent = path.enter($crate::record!(@name $field $($json)?));
                        $($crate::record!(@check $limit &self.$field, path, $($arg)*);)*
                        $crate::record::Json::check(&self.$field, path)?;
                        path.leave(parent);
                    }
                )*
                Ok(())
            }
        }

        $crate::described! {
            struct $name [$($about)*]
            $({$field $(= $json)?: $type [$($doc)*] $($limit($($arg)*))*})*
        }
    )*};
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $json:literal) => { $json };
    (@required required $number:expr) => { 1 << ($number) };
    (@required $limit:ident $number:expr) => { 0 };
    (@is_limit omit) => { false };
    (@is_limit required) => { false };
    (@is_limit $limit:ident) => { true };
    (@omit omit $value:expr, $is:expr) => { $is($value) };
    (@omit $limit:ident $($rest:tt)*) => { false };
    (@check within $value:expr, $path:ident, $range:expr) => {
        $crate::record::Ranged::check_range($value, &$range, $path)?
    };
    (@check count $value:expr, $path:ident, $range:expr) => {
        $crate::record::check_count($value.len(), &$range, $path)?
    };
    (@check check $value:expr, $path:ident, $is_right:expr) => {
        $crate::record::check_with($is_right($value), $path)?
    };
    (@check omit $($rest:tt)*) => {};
    (@check required $($rest:tt)*) => {};
}

/// Declares enums that are one of several texts; the first one is the default. See
/// [the module](mod@crate::record).
#[macro_export]
macro_rules! words {
    ($(
        $(#[doc = $about:literal])*
        $vis:vis enum $name:ident {
            $(#[doc = $first_doc:literal])*
            $first:ident = $first_word:literal
            $(, $(#[doc = $doc:literal])* $variant:ident = $word:literal)*
            $(,)?
        }
    )*) => {$(
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        $vis enum $name {
            $(#[doc = $first_doc])*
            #[default]
            $first,
            $($(#[doc = $doc])* $variant,)*
        }

        impl $name {
            const WORDS: &'static str = concat!($first_word, " ", $($word, " "),*);

            /// The string of the value in JSON.
            #[must_use]
            $vis fn as_str(self) -> &'static str {
                $crate::record::word(Self::WORDS, self as usize)
            }
        }

        #[doc(hidden)]
        impl $crate::record::Json for $name {
            fn read(
                &mut self,
                value: $crate::json::Value<'_>,
            ) -> Result<(), $crate::json::Error> {
                let number = $crate::record::read_word(Self::WORDS, value)?;
                *self = match number {
                    $(n if n == Self::$variant as usize => Self::$variant,)*
                    _ => Self::$first,
                };
                Ok(())
            }

            fn write(&self, out: &mut $crate::json::Writer) {
                out.text(self.as_str());
            }
        }

        $crate::described! {
            enum $name [$($about)*] {$first_word [$($first_doc)*]} $({$word [$($doc)*]})*
        }
    )*};
}

/// Declares enums whose variants are a text, or an object with one member that is named like the
/// variant and has its fields; the first one is the default. See
/// [the module](mod@crate::record).
#[macro_export]
macro_rules! choice {
    ($(
        $(#[doc = $about:literal])*
        $vis:vis enum $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $variant:ident $(($payload:ty))? = $word:literal
            ),* $(,)?
        }
    )*) => {$(
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq)]
        $vis enum $name {
            $($(#[doc = $doc])* $variant $(($payload))?,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $crate::choice!(@default $($variant $($payload)?;)*)
            }
        }

        impl $name {
            /// The text that names the variant in JSON.
            #[must_use]
            $vis const fn as_str(&self) -> &'static str {
                match self {
                    $($crate::choice!(@pattern $variant $($payload)?) => $word,)*
                }
            }
        }

        #[doc(hidden)]
        impl $crate::record::Json for $name {
            const HAS_LIMITS: bool =
                false $($(|| <$payload as $crate::record::Json>::HAS_LIMITS)?)*;

            fn read(
                &mut self,
                value: $crate::json::Value<'_>,
            ) -> Result<(), $crate::json::Error> {
                enum Number { $($variant),* }
                const WORDS: &str = concat!($($word, " "),*);
                let (number, payload) = $crate::record::choice_of(WORDS, value)?;
                match number {
                    $(n if n == Number::$variant as usize => {
                        $crate::choice!(@read self, value, payload, $variant $($payload)?);
                    })*
                    _ => {}
                }
                Ok(())
            }

            fn write(&self, out: &mut $crate::json::Writer) {
                match self {
                    $($crate::choice!(@bind payload, $variant $($payload)?) => {
                        $crate::choice!(@write self, out, payload $($payload)?);
                    })*
                }
            }

            fn check(
                &self,
                path: &mut $crate::record::Path,
            ) -> Result<(), $crate::json::Error> {
                let _ = &path;
                match self {
                    $($crate::choice!(@bind payload, $variant $($payload)?) => {
                        $crate::choice!(@check path, $word, payload $($payload)?);
                    })*
                }
                Ok(())
            }
        }

        $crate::described! { enum $name [$($about)*] $({$word [$($doc)*] $($payload)?})* }
    )*};
    (@default $variant:ident; $($rest:tt)*) => { Self::$variant };
    (@default $variant:ident $payload:ty; $($rest:tt)*) => {
        Self::$variant(<$payload>::default())
    };
    (@pattern $variant:ident) => { Self::$variant };
    (@pattern $variant:ident $payload:ty) => { Self::$variant(_) };
    (@bind $bound:ident, $variant:ident) => { Self::$variant };
    (@bind $bound:ident, $variant:ident $payload:ty) => { Self::$variant($bound) };
    (@read $self:ident, $value:ident, $given:ident, $variant:ident) => {
        if $given.is_some_and(|given| !given.is_null()) {
            return Err($value.expected("a text"));
        }
        *$self = Self::$variant
    };
    (@read $self:ident, $value:ident, $given:ident, $variant:ident $payload:ty) => {
        let Some(given) = $given else {
            return Err($value.expected("an object with one member"));
        };
        *$self = Self::$variant($crate::record::read(given)?)
    };
    (@write $self:ident, $out:ident, $payload:ident) => { $out.text($self.as_str()) };
    (@write $self:ident, $out:ident, $payload:ident $type:ty) => {
        $out.begin_object().key($self.as_str());
        $crate::record::Json::write($payload, $out);
        $out.end_object()
    };
    (@check $path:ident, $word:literal, $payload:ident) => {};
    (@check $path:ident, $word:literal, $payload:ident $type:ty) => {
        if <$type as $crate::record::Json>::HAS_LIMITS {
            let parent = $path.enter($word);
            $crate::record::Json::check($payload, $path)?;
            $path.leave(parent);
        }
    };
}

/// Describes the declarations of the other macros; only in this crate's tests, which generate the JSON schema from it.
#[cfg(not(test))]
#[macro_export]
macro_rules! described {
    ($($ignored:tt)*) => {};
}

/// Reads an object's members into the fields of a record.
///
/// # Errors
/// [`Error`] with the path of what is not an object, is missing or duplicated, or has another type.
pub fn read_fields(record: &mut dyn Record, value: Value<'_>) -> Result<(), Error> {
    if value.kind() != Kind::Object {
        return Err(value.expected("an object"));
    }
    let mut present = 0u128;
    for (key, member) in value.members() {
        let Some(number) = number_of(record.names(), &key) else {
            member.set_unknown();
            continue;
        };
        let bit = 1u128.checked_shl(u32::try_from(number).unwrap_or(u32::MAX)).unwrap_or(0);
        if present & bit != 0 {
            return Err(member.error("is there twice"));
        }
        present |= bit;
        record.read_field(number, member)?;
    }
    let missing = record.required() & !present;
    if missing != 0 {
        return Err(is_missing(word(record.names(), missing.trailing_zeros() as usize), value));
    }
    Ok(())
}

fn is_missing(name: &str, object: Value<'_>) -> Error {
    let mut error = object.error("is missing");
    let path = error.path_mut();
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
    error
}

/// The place of `name` among `words`, each of which has a space after it.
fn number_of(words: &str, name: &str) -> Option<usize> {
    words.split_terminator(' ').position(|word| word == name)
}

/// The word of that number.
#[must_use]
pub fn word(words: &'static str, number: usize) -> &'static str {
    words.split_terminator(' ').nth(number).unwrap_or_default()
}

/// Reads a text that is one of `words`; its number.
///
/// # Errors
/// [`Error`] that names all of them.
pub fn read_word(words: &str, value: Value<'_>) -> Result<usize, Error> {
    let number = value.text().and_then(|text| number_of(words, &text));
    number.ok_or_else(|| not_one_of(words, value))
}

fn not_one_of(words: &str, value: Value<'_>) -> Error {
    value.expected(&["one of ", &words.trim_end().replace(' ', ", ")].concat())
}

/// Reads a text that is one of `words`, or an object whose only member is named like one: the
/// word's number and that member.
///
/// # Errors
/// [`Error`] that names all words.
pub fn choice_of<'a>(words: &str, value: Value<'a>) -> Result<(usize, Option<Value<'a>>), Error> {
    let mut members = value.members();
    match (members.next(), members.next()) {
        (None, _) => Ok((read_word(words, value)?, None)),
        (Some((key, member)), None) => {
            let number = number_of(words, &key);
            Ok((number.ok_or_else(|| not_one_of(words, value))?, Some(member)))
        }
        _ => Err(value.expected("an object with one member")),
    }
}
