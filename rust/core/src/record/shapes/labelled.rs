//! Texts with labels: one text, or a pair of texts.

use super::text;
use crate::config::{Classes, Part};
use crate::record::parsing::fault::{Fault, wrong_type};
use crate::record::shape::Shape;
use crate::report::ledger::Reason;
use fastpack_template::json::{Json, Map};

/// The most names of classes that a message lists.
const LISTED: usize = 8;

/// A text or a pair of texts, with the labels of both together.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// One text, or two.
    pub texts: Vec<String>,
    /// The field of the label or labels.
    field: String,
    /// Its value.
    labels: Json,
}

/// A text and its label or labels.
pub(crate) fn read_text(record: &Map, shape: &Shape) -> Result<Labelled, Fault> {
    let texts = vec![text::read(record, shape.field(Part::Text))?];
    Ok(labelled(record, shape, texts))
}

/// A pair of texts, and the label or labels of both together. One of them may be empty.
pub(crate) fn read_pair(record: &Map, shape: &Shape) -> Result<Labelled, Fault> {
    let fields = [shape.field(Part::Sentence1), shape.field(Part::Sentence2)];
    let read = |field: &str| match record.get(field) {
        Some(Json::String(text)) => Ok(text.to_string()),
        other => Err(wrong_type(field, "a string", other)),
    };
    let texts = vec![read(fields[0])?, read(fields[1])?];
    if texts.iter().all(String::is_empty) {
        let message = format!("`{}` and `{}` are empty", fields[0], fields[1]);
        return Err(Fault::new(Reason::Empty, message));
    }
    Ok(labelled(record, shape, texts))
}

fn labelled(record: &Map, shape: &Shape, texts: Vec<String>) -> Labelled {
    let field = shape.field(Part::Label).to_owned();
    let labels = record.get(&*field).cloned().unwrap_or(Json::Null);
    Labelled { texts, field, labels }
}

impl Labelled {
    /// The number of the class of the one label.
    pub fn class(&self, classes: &Classes) -> Result<u32, Fault> {
        match &self.labels {
            Json::List(_) => {
                let expected =
                    "the number or the name of one class; the objective `multi_label` takes lists";
                Err(wrong_type(&self.field, expected, Some(&self.labels)))
            }
            label => self.number(label, classes),
        }
    }

    /// The names of classes that the one label is, or that the labels of `several` classes are; `None` for the number of
    /// a class.
    pub fn names(&self, several: bool) -> Result<Option<Vec<&str>>, Fault> {
        let labels = match &self.labels {
            Json::List(labels) if several => labels,
            Json::String(name) if !several => return Ok(Some(vec![name])),
            _ if several => {
                let expected = "a list of the names of classes";
                return Err(wrong_type(&self.field, expected, Some(&self.labels)));
            }
            _ => return Ok(None),
        };
        let mut names: Vec<&str> = Vec::with_capacity(labels.len());
        for label in labels.iter() {
            let Json::String(name) = label else {
                let expected =
                    "a list of the names of classes where `objective.classes` is not given";
                return Err(wrong_type(&self.field, expected, Some(label)));
            };
            if names.contains(&&**name) {
                return Err(self.twice(label));
            }
            names.push(name);
        }
        Ok(Some(names))
    }

    fn twice(&self, label: &Json) -> Fault {
        let message = format!("`{}` names the class {} twice", self.field, shown(label));
        Fault::new(Reason::WrongType, message)
    }

    /// For each class 1 if it is among the labels, else 0.
    ///
    /// Labels are a list of names or numbers of classes, or a list with a boolean, a 0 or a 1 for each class. A list of
    /// zeros and ones that could be either is refused.
    pub fn truths(&self, classes: &Classes) -> Result<Vec<u32>, Fault> {
        let Json::List(labels) = &self.labels else {
            let expected = "a list of classes, or a list of truths, one for each class";
            return Err(wrong_type(&self.field, expected, Some(&self.labels)));
        };
        let count = classes.count().unwrap_or_default();
        let truth = |label: &Json| match label {
            Json::Bool(truth) => Some(u32::from(*truth)),
            Json::Int(0) => Some(0),
            Json::Int(1) => Some(1),
            Json::Float(truth) if *truth == 0.0 => Some(0),
            Json::Float(truth) if truth.to_bits() == 1_f64.to_bits() => Some(1),
            _ => None,
        };
        let are_numbers = labels.iter().all(|label| matches!(label, Json::Int(_)));
        let are_certain = labels.iter().any(|it| matches!(it, Json::Bool(_) | Json::Float(_)));
        let truths: Option<Vec<u32>> = labels.iter().map(truth).collect();
        let truths = truths.filter(|truths| truths.len() == count && count > 0);
        let listed = if are_certain { None } else { Some(self.listed(labels, classes, count)) };
        match (truths, listed) {
            (Some(truths), Some(Ok(listed))) if are_numbers && truths != listed => {
                let message = format!(
                    "`{}` is a list of numbers of classes, or of truths; write true and false for truths, or names of classes",
                    self.field
                );
                Err(Fault::new(Reason::WrongType, message))
            }
            (Some(truths), _) => Ok(truths),
            (None, Some(listed)) => listed,
            (None, None) => {
                let message = format!(
                    "`{}` has {} values; a list of truths has a 0 or a 1 for each of the {count} classes",
                    self.field,
                    labels.len()
                );
                Err(Fault::new(Reason::WrongType, message))
            }
        }
    }

    /// The truths of a list of classes. None stands in it twice.
    fn listed(&self, labels: &[Json], classes: &Classes, count: usize) -> Result<Vec<u32>, Fault> {
        let mut truths = vec![0; count];
        for label in labels {
            let class = self.number(label, classes)? as usize;
            if std::mem::replace(&mut truths[class], 1) == 1 {
                return Err(self.twice(label));
            }
        }
        Ok(truths)
    }

    /// The number of a class that is given by its number or its name.
    fn number(&self, label: &Json, classes: &Classes) -> Result<u32, Fault> {
        let count = classes.count().unwrap_or(i32::MAX as usize);
        let unknown = |known: String| {
            let message = format!("`{}` is {}, but {known}", self.field, shown(label));
            Fault::new(Reason::WrongType, message)
        };
        match label {
            Json::Int(number) => {
                u32::try_from(*number).ok().filter(|number| (*number as usize) < count).ok_or_else(
                    || unknown(format!("classes have the numbers from 0 to {}", count - 1)),
                )
            }
            Json::String(name) => match classes {
                Classes::Names(names) => {
                    let found = (0..).zip(names).find(|(_, known)| **known == **name);
                    found.map(|(number, _)| number).ok_or_else(|| {
                        let listed: Vec<String> =
                            names.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
                        let more = if names.len() > LISTED { ", …" } else { "" };
                        unknown(format!("`objective.classes` names {}{more}", listed.join(", ")))
                    })
                }
                Classes::Unknown | Classes::Count(_) => Err(unknown(
                    "`objective.classes` does not name the classes; list their names there".into(),
                )),
            },
            other => Err(wrong_type(&self.field, "the number or the name of a class", Some(other))),
        }
    }
}

/// A label for a message.
fn shown(label: &Json) -> String {
    match label {
        Json::Int(number) => number.to_string(),
        Json::String(name) => format!("`{name}`"),
        other => other.type_name().to_owned(),
    }
}
