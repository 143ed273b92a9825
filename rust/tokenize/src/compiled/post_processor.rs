//! The ids that a post-processor puts before and after a text, and the blanks that it leaves out of source ranges.

use serde_json::Value;

/// The ids before and after a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PostProcessorTemplate {
    before: Vec<u32>,
    after: Vec<u32>,
    /// True if a step that adds ids was read: the reference fails on a second `TemplateProcessing`.
    read: bool,
    /// True if that step put its ids and the text's into one list, as all but `TemplateProcessing` do.
    joined: bool,
    /// The steps that leave blanks out of source ranges; `None` if their options are not written.
    trims: Option<Vec<OffsetTrim>>,
}

/// A step that leaves the blanks around tokens out of their source ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OffsetTrim {
    /// True if the first token keeps a single blank at its beginning.
    pub(super) add_prefix_space: bool,
    /// True if the step comes after one that put ids in front of the text's first token.
    pub(super) after: bool,
}

impl PostProcessorTemplate {
    /// Reads a post-processor: `ByteLevel`, `TemplateProcessing`, `BertProcessing`, `RobertaProcessing`, or a
    /// sequence of these.
    pub(super) fn recognise(processor: &Value) -> Option<Self> {
        let mut template = Self { trims: Some(Vec::new()), ..Self::default() };
        template.read(processor).then_some(template)
    }

    fn read(&mut self, processor: &Value) -> bool {
        match processor["type"].as_str() {
            None => processor.is_null(),
            // `ByteLevel` trims source ranges and does not change ids.
            Some("ByteLevel") => {
                self.read_trim(processor);
                true
            }
            Some("Sequence") => processor["processors"]
                .as_array()
                .is_some_and(|steps| steps.iter().all(|step| self.read(step))),
            Some("TemplateProcessing") => self.read_template(processor).is_some(),
            Some("BertProcessing") => self.read_pair(processor).is_some(),
            Some("RobertaProcessing") => {
                self.read_trim(processor);
                self.read_pair(processor).is_some()
            }
            Some(_) => false,
        }
    }

    fn read_template(&mut self, processor: &Value) -> Option<()> {
        if std::mem::replace(&mut self.read, true) {
            return None;
        }
        let mut seen = false;
        for piece in processor["single"].as_array()? {
            if let Some(sequence) = piece.get("Sequence") {
                if seen || sequence["id"] != "A" {
                    return None;
                }
                seen = true;
                continue;
            }
            let name = piece.get("SpecialToken")?["id"].as_str()?;
            let side = if seen { &mut self.after } else { &mut self.before };
            for id in processor["special_tokens"].get(name)?["ids"].as_array()? {
                side.push(u32::try_from(id.as_u64()?).ok()?);
            }
        }
        seen.then_some(())
    }

    /// Reads a processor that puts one token before the text and one after it, each written with its id.
    fn read_pair(&mut self, processor: &Value) -> Option<()> {
        if std::mem::replace(&mut self.read, true) {
            return None;
        }
        self.joined = true;
        for (name, side) in [("cls", &mut self.before), ("sep", &mut self.after)] {
            side.push(u32::try_from(processor[name].get(1)?.as_u64()?).ok()?);
        }
        Some(())
    }

    fn read_trim(&mut self, processor: &Value) {
        let flag = |name: &str| processor[name].as_bool();
        match (flag("trim_offsets"), flag("add_prefix_space")) {
            (Some(false), _) => {}
            (Some(true), Some(add_prefix_space)) => {
                let trim = OffsetTrim { add_prefix_space, after: self.joined };
                self.trims.iter_mut().for_each(|trims| trims.push(trim));
            }
            _ => self.trims = None,
        }
    }

    /// The steps that leave blanks out of source ranges, in their order; `None` if they are not known.
    pub(super) fn trims(&self) -> Option<&[OffsetTrim]> {
        self.trims.as_deref()
    }

    /// The ids before the text.
    pub(super) fn before(&self) -> &[u32] {
        &self.before
    }

    /// The ids after the text.
    pub(super) fn after(&self) -> &[u32] {
        &self.after
    }
}
