//! Classes and methods by R8's and ProGuard's `mapping.txt`: sorted by their obfuscated names, all names in one text.

use super::Span;

/// Original names of classes and methods.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Classes {
    text: String,
    /// By obfuscated name; the last of equal ones counts.
    classes: Vec<Class>,
    /// Of each class one after the other; of a class by obfuscated name.
    methods: Vec<Method>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Class {
    renamed: Span,
    original: Span,
    /// First method, and the one after the last.
    methods: (u32, u32),
}

/// A method. Overloads and inlining make several of one name; the first counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Method {
    renamed: Span,
    original: Span,
}

impl Classes {
    pub(super) const fn len(&self) -> usize {
        self.classes.len() + self.methods.len()
    }

    pub(super) const fn memory(&self) -> usize {
        self.text.len()
            + size_of_val(self.classes.as_slice())
            + size_of_val(self.methods.as_slice())
    }

    /// Returns the original of a class, a method or a descriptor; `None` if it was not renamed.
    pub(super) fn original(&self, name: &str) -> Option<String> {
        if let Some(class) = name.strip_prefix('L').and_then(|name| name.strip_suffix(';')) {
            let class = self.class(&class.replace('/', "."))?;
            return Some(format!("L{};", class.original.of(&self.text).replace('.', "/")));
        }
        if let Some(class) = self.class(name) {
            return Some(class.original.of(&self.text).to_owned());
        }
        let (class, method) = name.rsplit_once('.')?;
        let class = self.class(class)?;
        let method = self.method(class, method).unwrap_or(method);
        Some(format!("{}.{method}", class.original.of(&self.text)))
    }

    fn class(&self, renamed: &str) -> Option<&Class> {
        let after = self.classes.partition_point(|of| of.renamed.of(&self.text) <= renamed);
        let class = self.classes.get(after.checked_sub(1)?)?;
        (class.renamed.of(&self.text) == renamed).then_some(class)
    }

    fn method(&self, class: &Class, renamed: &str) -> Option<&str> {
        let (from, to) = class.methods;
        let methods = self.methods.get(from as usize..to as usize)?;
        let place = methods.partition_point(|of| of.renamed.of(&self.text) < renamed);
        let method = methods.get(place)?;
        (method.renamed.of(&self.text) == renamed).then(|| method.original.of(&self.text))
    }
}

/// Classes being read, and the class whose members come now.
#[derive(Debug, Default)]
pub(super) struct ClassesBuilder {
    made: Classes,
    open: Option<(Span, Span)>,
    /// Members of the open class, with each overload and line range.
    text: String,
    members: Vec<Method>,
}

impl ClassesBuilder {
    pub(super) const fn len(&self) -> usize {
        let open = if self.open.is_some() { 1 } else { 0 };
        self.made.len() + open + self.members.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.made.text.len() + self.text.len()
    }

    /// Takes a line. Returns why it is wrong.
    pub(super) fn take(&mut self, line: &str, is_member: bool) -> Result<(), &'static str> {
        let (original, renamed) =
            line.split_once(" -> ").ok_or("is neither of R8 nor of Matrix")?;
        if is_member {
            if self.open.is_none() {
                return Err("has a member of no class");
            }
            if let Some(method) = method_name(original) {
                let renamed = Span::push(&mut self.text, renamed);
                let original = Span::push(&mut self.text, method);
                self.members.push(Method { renamed, original });
            }
            return Ok(());
        }
        let renamed = renamed.strip_suffix(':').ok_or("has a class without its colon")?;
        self.close();
        let text = &mut self.made.text;
        self.open = Some((Span::push(text, renamed), Span::push(text, original)));
        Ok(())
    }

    fn close(&mut self) {
        let Some((renamed, original)) = self.open.take() else { return };
        let from = self.made.methods.len();
        let text = &self.text;
        // Stable: the first of equal ones stays the first.
        self.members.sort_by_key(|of| of.renamed.of(text));
        self.members.dedup_by_key(|of| of.renamed.of(text));
        for member in self.members.drain(..) {
            let renamed = Span::push(&mut self.made.text, member.renamed.of(text));
            let original = Span::push(&mut self.made.text, member.original.of(text));
            self.made.methods.push(Method { renamed, original });
        }
        self.text.clear();
        let methods =
            [from, self.made.methods.len()].map(|place| u32::try_from(place).unwrap_or(u32::MAX));
        self.made.classes.push(Class { renamed, original, methods: methods.into() });
    }

    pub(super) fn finish(mut self) -> Classes {
        self.close();
        let Classes { text, classes, .. } = &mut self.made;
        classes.sort_by_key(|of| of.renamed.of(text));
        let mut made = self.made;
        made.text.shrink_to_fit();
        made.classes.shrink_to_fit();
        made.methods.shrink_to_fit();
        made
    }
}

/// The method's name in `1:5:void name(int):10:14`; a field has none.
fn method_name(member: &str) -> Option<&str> {
    let before = member.split('(').next().filter(|before| before.len() < member.len())?;
    let name = before.rsplit([' ', ':']).next()?;
    // An inlined method carries its own class.
    name.rsplit('.').next()
}
