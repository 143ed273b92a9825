//! [`PyPretrained`]: a loaded tokenizer with its special tokens and chat templates, for any number of calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastpack_core::Error;
use fastpack_tokenize::loading::regular;
use fastpack_tokenize::{
    BuiltTokenizer, Engine, NamedTemplate, Pretrained, SpecialTokens, Tokenizer,
};
use pyo3::prelude::*;

use crate::convert::refuse;
use crate::error;
use crate::interruptible::{self, Interrupted};

/// A loaded tokenizer, its special tokens and its chat templates.
#[pyclass(name = "Pretrained", module = "fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyPretrained {
    pub(crate) pretrained: Arc<Pretrained>,
    /// The path or hub name that the caller gave; `None` for a live tokenizer.
    pub(crate) name: Option<String>,
}

/// The tokenizer of a folder, or its class if that is for transformers to build.
#[derive(IntoPyObject)]
pub(crate) enum FolderTokenizer {
    Read(PyPretrained),
    Foreign(String),
}

/// The parts of a live tokenizer: its JSON, its special tokens and chat templates by name, and the defaults of its calls.
type TokenizerParts = (String, Vec<(String, String)>, Vec<(String, String)>, String);

fn named_templates(templates: Vec<(String, String)>) -> Vec<NamedTemplate> {
    templates.into_iter().map(|(name, source)| NamedTemplate { name, source }).collect()
}

#[pymethods]
impl PyPretrained {
    /// Reads a model folder; `hub_name` is its name on the hub, if it was downloaded. Returns the class of a folder that is
    /// for transformers to build.
    #[staticmethod]
    fn from_dir(
        py: Python<'_>,
        path: PathBuf,
        hub_name: Option<String>,
    ) -> PyResult<FolderTokenizer> {
        let name = hub_name.unwrap_or_else(|| path.display().to_string());
        let known_as = name.clone();
        interruptible::run(py, None, Interrupted::Abandon, move |_, _| {
            match Pretrained::from_named_dir(&path, Path::new(&known_as)) {
                Ok(pretrained) => Ok(FolderTokenizer::Read(Self::new(pretrained, Some(name)))),
                Err(fastpack_tokenize::Error::ForeignClass { class, .. }) => {
                    Ok(FolderTokenizer::Foreign(class))
                }
                Err(refused) => Err(refused.into()),
            }
        })
    }

    /// Takes the tokenizer that `transformers`, of this version, built of a model folder; the parts are those of `from_json`.
    #[staticmethod]
    fn from_built(
        py: Python<'_>,
        path: PathBuf,
        hub_name: Option<String>,
        parts: TokenizerParts,
        splits_special_tokens: bool,
        transformers: String,
    ) -> PyResult<Self> {
        let name = hub_name.unwrap_or_else(|| path.display().to_string());
        let (json, special_tokens, templates, call) = parts;
        let chat_templates = named_templates(templates);
        let built = BuiltTokenizer {
            transformers,
            json,
            splits_special_tokens,
            special_tokens,
            chat_templates,
            call,
        };
        let pretrained = interruptible::run(py, None, Interrupted::Abandon, move |_, _| {
            Ok(Pretrained::from_built(&path, built)?)
        })?;
        Ok(Self::new(pretrained, Some(name)))
    }

    /// Reads a bare `tokenizer.json`.
    #[staticmethod]
    fn from_file(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let name = path.display().to_string();
        let pretrained = interruptible::run(py, None, Interrupted::Abandon, move |_, _| {
            let json = regular::read_to_string(&path).map_err(Error::io(&path))?;
            let tokenizer = Tokenizer::from_file_text(&json)?;
            Ok(Pretrained {
                tokenizer,
                special_tokens: Vec::new(),
                stop_tokens: Vec::new(),
                chat_templates: Vec::new(),
                call: "{}".to_owned(),
                built_by: None,
            })
        })?;
        Ok(Self::new(pretrained, Some(name)))
    }

    /// Loads a live tokenizer from its JSON.
    #[staticmethod]
    fn from_json(
        py: Python<'_>,
        json: String,
        special_tokens: Vec<(String, String)>,
        chat_templates: Vec<(String, String)>,
        call: String,
    ) -> PyResult<Self> {
        let pretrained = interruptible::run(py, None, Interrupted::Abandon, move |_, _| {
            Ok(Pretrained {
                tokenizer: Tokenizer::from_json(&json)?,
                special_tokens,
                stop_tokens: Vec::new(),
                chat_templates: named_templates(chat_templates),
                call,
                built_by: None,
            })
        })?;
        Ok(Self::new(pretrained, None))
    }

    /// The chat templates, each with its name.
    #[getter]
    fn chat_templates(&self) -> Vec<(String, String)> {
        let templates = self.pretrained.chat_templates.iter();
        templates.map(|template| (template.name.clone(), template.source.clone())).collect()
    }

    /// Named special tokens, such as `("eos_token", "</s>")`.
    #[getter]
    fn special_tokens(&self) -> Vec<(String, String)> {
        self.pretrained.special_tokens.clone()
    }

    /// The contents of all tokens that are marked special.
    #[getter]
    fn special_contents(&self) -> Vec<String> {
        self.pretrained.tokenizer.special_tokens().to_vec()
    }

    /// The class and its settings for padding and truncation, as a JSON object.
    #[getter]
    fn call(&self) -> String {
        self.pretrained.call.clone()
    }

    /// The number of tokens, added ones included.
    #[getter]
    fn vocab_size(&self) -> usize {
        self.pretrained.tokenizer.vocab_size()
    }

    /// The component that the compiled engine does not support; `None` if that engine makes the ids.
    #[getter]
    fn engine_reason(&self) -> Option<String> {
        match self.pretrained.tokenizer.engine() {
            Engine::Compiled => None,
            Engine::Reference { reason } => Some(reason),
        }
    }

    /// Each component by its name, with its type and its options.
    fn components(&self) -> PyResult<Vec<(&'static str, String)>> {
        let components = self.pretrained.tokenizer.components();
        components.map_err(|refused| error::to_py(refused.into()))
    }

    /// The parts of the encoding of one text, or of a pair: the text (0 or 1) or `None`, the id, and the type.
    fn frame(&self, pair: bool, special: bool) -> PyResult<Vec<(Option<usize>, u32, u32)>> {
        let special = if special { SpecialTokens::Add } else { SpecialTokens::Omit };
        let parts = self.pretrained.tokenizer.frame(1 + usize::from(pair), special);
        let parts = parts.map_err(|refused| error::to_py(refused.into()))?;
        Ok(parts.into_iter().map(|part| (part.text, part.id, part.kind)).collect())
    }

    /// A digest of everything that decides the ids.
    #[getter]
    fn fingerprint(&self) -> String {
        self.pretrained.tokenizer.fingerprint().to_owned()
    }

    /// The content of a token.
    fn id_to_token(&self, id: u32) -> Option<String> {
        self.pretrained.tokenizer.id_to_token(id)
    }

    /// The id of a token.
    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.pretrained.tokenizer.token_to_id(token)
    }

    /// Decodes ids to text, special tokens included.
    fn decode(&self, ids: PyIds) -> PyResult<String> {
        self.pretrained.tokenizer.decode(&ids.0).map_err(|refused| error::to_py(refused.into()))
    }

    fn __repr__(&self) -> String {
        format!("<fastpack.Pretrained of {} tokens>", self.pretrained.tokenizer.vocab_size())
    }
}

impl PyPretrained {
    fn new(pretrained: Pretrained, name: Option<String>) -> Self {
        Self { pretrained: Arc::new(pretrained), name }
    }
}

/// Token ids: a list, or an object with `tolist`, such as an array.
struct PyIds(Vec<u32>);

impl<'py> FromPyObject<'_, 'py> for PyIds {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let list =
            if value.hasattr("tolist")? { value.call_method0("tolist")? } else { value.to_owned() };
        list.extract().map(Self).map_err(|_| refuse(value, "ids", "a list or array of ids"))
    }
}
