//! [`ShapeEntry`]: the table of shapes, with the parts of each and the form of its content.

use super::fields;
use super::part::Part;
use super::shape_name::ShapeName;

/// A part of records, and the fields that usually hold it.
#[derive(Debug)]
pub struct PartFields {
    /// The part.
    pub part: Part,
    /// The usual fields. The first one in a record is read.
    pub fields: &'static [&'static str],
    /// Another part by whose name a caller may give the field.
    alias: Option<Part>,
    /// True if records of other shapes may have the part too, so that no shape follows from its name.
    is_general: bool,
}

impl PartFields {
    const fn of(part: Part, fields: &'static [&'static str]) -> Self {
        Self { part, fields, alias: None, is_general: false }
    }

    const fn general(part: Part, fields: &'static [&'static str]) -> Self {
        Self { part, fields, alias: None, is_general: true }
    }

    /// The names by which a caller may give the field, in the order in which they are looked for.
    pub(crate) fn names(&self) -> impl Iterator<Item = Part> + use<> {
        self.alias.into_iter().chain([self.part])
    }
}

/// The form of the content of a shape, which decides what renders it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentForm {
    /// The chat template renders the messages.
    ChatTemplate,
    /// A prompt format or the chat template joins a request and its answer.
    PromptFormat,
    /// Prompts and answers stay apart, as records have them.
    Prompts,
    /// Texts stay as they are.
    Texts,
    /// There are ids, and no texts.
    Ids,
}

/// The meaning of fields that a shape does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherFields {
    /// Pictures and long texts may belong to the conversation, so the report counts them.
    MayBelong,
    /// A corpus has many columns beside its texts.
    OfCorpus,
    /// They become columns of the rows: a generated text is compared with the answers.
    BecomeColumns,
    /// They may hold the texts of the ids.
    TextsOfIds,
}

/// A shape of records. A file whose first record has all required parts has the shape.
#[derive(Debug)]
pub struct ShapeEntry {
    /// Its name.
    pub name: ShapeName,
    /// The parts of every record.
    pub required: &'static [PartFields],
    /// The parts of some records.
    pub optional: &'static [PartFields],
    /// The part that is a text or a list of messages in the first record, and all others are then too; `None` if the name of the
    /// shape decides.
    pub text_or_messages: Option<Part>,
    /// The form of its content.
    pub form: ContentForm,
    /// The meaning of fields that it does not read.
    pub others: OtherFields,
    /// True if a record may have a loss mask.
    pub has_masks: bool,
}

const TOOLS: PartFields = PartFields::general(Part::Tools, &fields::TOOLS);
const SYSTEM: PartFields = PartFields::general(Part::System, &fields::SYSTEMS);
const HISTORY: PartFields = PartFields::general(Part::History, &fields::HISTORY);
const PROMPT: PartFields = PartFields::of(Part::Prompt, &fields::PROMPT);
const COMPLETION: PartFields = PartFields::of(Part::Completion, &fields::COMPLETION);
const TEXT: PartFields = PartFields::of(Part::Text, &fields::TEXT);
/// The class or the classes of a text.
const CLASSES: PartFields =
    PartFields { alias: Some(Part::Labels), ..PartFields::of(Part::Label, &fields::LABELS) };

/// The loss mask. Shapes without masks refuse it.
pub(crate) const LOSS_MASK: PartFields = PartFields::general(Part::LossMask, &fields::LOSS_MASK);

/// The entry of each shape, in the order of their names.
static SHAPES: [ShapeEntry; ShapeName::ALL.len()] = [
    ShapeEntry {
        name: ShapeName::Conversations,
        required: &[PartFields::of(Part::Messages, &fields::MESSAGES)],
        optional: &[TOOLS, SYSTEM],
        text_or_messages: None,
        form: ContentForm::ChatTemplate,
        others: OtherFields::MayBelong,
        has_masks: true,
    },
    ShapeEntry {
        name: ShapeName::PromptCompletion,
        required: &[PROMPT, COMPLETION],
        optional: &[TOOLS, SYSTEM],
        text_or_messages: Some(Part::Prompt),
        form: ContentForm::PromptFormat,
        others: OtherFields::MayBelong,
        has_masks: true,
    },
    ShapeEntry {
        name: ShapeName::Instruction,
        required: &[
            PartFields::of(Part::Instruction, &fields::INSTRUCTION),
            PartFields::of(Part::Output, &fields::OUTPUT),
        ],
        optional: &[PartFields::of(Part::Input, &fields::INPUT), SYSTEM, HISTORY],
        text_or_messages: None,
        form: ContentForm::PromptFormat,
        others: OtherFields::MayBelong,
        has_masks: false,
    },
    ShapeEntry {
        name: ShapeName::QuestionAnswer,
        required: &[
            PartFields::of(Part::Question, &fields::QUESTION),
            PartFields::of(Part::Answer, &fields::ANSWER),
        ],
        optional: &[SYSTEM, HISTORY],
        text_or_messages: None,
        form: ContentForm::PromptFormat,
        others: OtherFields::MayBelong,
        has_masks: false,
    },
    ShapeEntry {
        name: ShapeName::Text,
        required: &[TEXT],
        optional: &[],
        text_or_messages: None,
        form: ContentForm::Texts,
        others: OtherFields::OfCorpus,
        has_masks: false,
    },
    ShapeEntry {
        name: ShapeName::Tokens,
        required: &[PartFields::of(Part::InputIds, &fields::INPUT_IDS)],
        optional: &[
            PartFields::of(Part::Labels, &fields::TOKEN_LABELS),
            PartFields::of(Part::AttentionMask, &fields::ATTENTION_MASK),
            PartFields::of(Part::AssistantMasks, &fields::MASKS),
            PartFields::of(Part::LossWeights, &fields::LOSS_WEIGHTS),
        ],
        text_or_messages: None,
        form: ContentForm::Ids,
        others: OtherFields::TextsOfIds,
        has_masks: true,
    },
    ShapeEntry {
        name: ShapeName::Preference,
        required: &[
            PartFields::of(Part::Chosen, &fields::CHOSEN),
            PartFields::of(Part::Rejected, &fields::REJECTED),
        ],
        optional: &[PROMPT, TOOLS, SYSTEM],
        text_or_messages: Some(Part::Chosen),
        form: ContentForm::Prompts,
        others: OtherFields::MayBelong,
        has_masks: false,
    },
    ShapeEntry {
        name: ShapeName::UnpairedPreference,
        required: &[PROMPT, COMPLETION, PartFields::of(Part::Label, &fields::LABEL)],
        optional: &[TOOLS, SYSTEM],
        text_or_messages: Some(Part::Prompt),
        form: ContentForm::Prompts,
        others: OtherFields::MayBelong,
        has_masks: false,
    },
    ShapeEntry {
        name: ShapeName::Prompt,
        required: &[PROMPT],
        optional: &[TOOLS, SYSTEM],
        text_or_messages: Some(Part::Prompt),
        form: ContentForm::Prompts,
        others: OtherFields::BecomeColumns,
        has_masks: false,
    },
    ShapeEntry {
        name: ShapeName::LabelledText,
        required: &[TEXT, CLASSES],
        optional: &[],
        text_or_messages: None,
        form: ContentForm::Texts,
        others: OtherFields::OfCorpus,
        has_masks: false,
    },
    ShapeEntry {
        name: ShapeName::LabelledPair,
        required: &[
            PartFields::of(Part::Sentence1, &fields::SENTENCE1),
            PartFields::of(Part::Sentence2, &fields::SENTENCE2),
            CLASSES,
        ],
        optional: &[],
        text_or_messages: None,
        form: ContentForm::Texts,
        others: OtherFields::OfCorpus,
        has_masks: false,
    },
];

const _: () = {
    let mut at = 0;
    while at < SHAPES.len() {
        assert!(SHAPES[at].name as usize == at, "entries are in the order of their names");
        at += 1;
    }
};

impl ShapeName {
    /// The entry of a shape.
    pub fn entry(self) -> &'static ShapeEntry {
        &SHAPES[self as usize]
    }
}

impl ShapeEntry {
    /// The parts of every record, and those of some.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &PartFields> {
        self.required.iter().chain(self.optional)
    }
}

impl Part {
    /// True if this part belongs to no shape of its own: records of any may have it.
    pub(super) fn is_general(self) -> bool {
        SHAPES.iter().all(|shape| !self.is_of(shape.name))
    }

    /// True if this part belongs to records of this shape alone.
    pub(super) fn is_of(self, shape: ShapeName) -> bool {
        let tells = |it: &PartFields| !it.is_general && it.names().any(|name| name == self);
        shape.entry().parts().any(tells)
    }

    /// The first of these shapes that has this part; `None` for a part of any shape.
    pub(super) fn shape(self, shapes: &[ShapeName]) -> Option<ShapeName> {
        shapes.iter().copied().find(|&shape| self.is_of(shape))
    }
}
