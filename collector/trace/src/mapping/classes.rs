//! Classes and methods by R8's and ProGuard's `mapping.txt`, sorted by their obfuscated names.

use super::packed::{Class, Method, Packed, Span, partition_point};

/// Original names of classes and methods.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Classes(pub(super) Packed);

impl Classes {
    /// Returns the original of a class, a method or a descriptor; `None` if it was not renamed.
    pub(super) fn original(&self, name: &str) -> Option<String> {
        let packed = &self.0;
        if let Some(class) = name.strip_prefix('L').and_then(|name| name.strip_suffix(';')) {
            let class = self.class(&class.replace('/', "."))?;
            return Some(format!("L{};", packed.name(class.original).replace('.', "/")));
        }
        if let Some(class) = self.class(name) {
            return Some(packed.name(class.original).to_owned());
        }
        let (class, method) = name.rsplit_once('.')?;
        let class = self.class(class)?;
        let method = self.method(class, method).unwrap_or(method);
        Some(format!("{}.{method}", packed.name(class.original)))
    }

    /// The last of equal names counts.
    fn class(&self, renamed: &str) -> Option<Class> {
        let (packed, renamed) = (&self.0, renamed.as_bytes());
        let is_before = |number| {
            packed.class(number).is_some_and(|class| packed.raw_name(class.renamed) <= renamed)
        };
        let after = partition_point(packed.classes(), is_before);
        let class = packed.class(after.checked_sub(1)?)?;
        (packed.raw_name(class.renamed) == renamed).then_some(class)
    }

    fn method(&self, class: Class, renamed: &str) -> Option<&str> {
        let (packed, renamed) = (&self.0, renamed.as_bytes());
        let (from, to) = (class.methods.0 as usize, class.methods.1 as usize);
        let is_before = |number| {
            packed
                .method(from + number)
                .is_some_and(|method| packed.raw_name(method.renamed) < renamed)
        };
        let index = from + partition_point(to.checked_sub(from)?, is_before);
        let method = packed.method(index).filter(|_| index < to)?;
        (packed.raw_name(method.renamed) == renamed).then(|| packed.name(method.original))
    }
}

/// Classes being read, and the class whose members follow.
#[derive(Debug, Default)]
pub(super) struct ClassesBuilder {
    made: Made,
    open: Option<(Span, Span)>,
    /// Members of the open class, with each overload and line range.
    text: String,
    members: Vec<Method>,
}

/// Classes that were read. The methods of each class are contiguous, sorted by obfuscated name.
#[derive(Debug, Default)]
struct Made {
    text: String,
    classes: Vec<Class>,
    methods: Vec<Method>,
}

impl ClassesBuilder {
    pub(super) const fn len(&self) -> usize {
        let open = if self.open.is_some() { 1 } else { 0 };
        self.made.classes.len() + self.made.methods.len() + open + self.members.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.made.text.len() + self.text.len()
    }

    /// Takes a line. Returns why it is wrong.
    pub(super) fn take(&mut self, line: &str, is_member: bool) -> Result<(), &'static str> {
        let (original, renamed) = line.split_once(" -> ").ok_or("is not a line of R8 or Matrix")?;
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
        // The sort is stable: the first of equal entries stays first.
        self.members.sort_by_key(|member| member.renamed.of(text));
        self.members.dedup_by_key(|member| member.renamed.of(text));
        for member in self.members.drain(..) {
            let renamed = Span::push(&mut self.made.text, member.renamed.of(text));
            let original = Span::push(&mut self.made.text, member.original.of(text));
            self.made.methods.push(Method { renamed, original });
        }
        self.text.clear();
        let methods =
            [from, self.made.methods.len()].map(|index| u32::try_from(index).unwrap_or(u32::MAX));
        self.made.classes.push(Class { renamed, original, methods: methods.into() });
    }

    pub(super) fn finish(mut self) -> Classes {
        self.close();
        let Made { text, mut classes, methods } = self.made;
        classes.sort_by_key(|class| class.renamed.of(&text));
        Classes(Packed::new(&text, &classes, &methods, &[]))
    }
}

/// The method's name in `1:5:void name(int):10:14`; a field has none.
fn method_name(member: &str) -> Option<&str> {
    let before = member.split('(').next().filter(|before| before.len() < member.len())?;
    let name = before.rsplit([' ', ':']).next()?;
    // An inlined method carries its own class.
    name.rsplit('.').next()
}
