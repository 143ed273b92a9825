//! A model folder's ids, as the differential test against transformers asks for them.

use std::path::PathBuf;

use fastpack_tokenize::{Encoding, Pretrained, SpecialTokens};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Ids of `texts`, `special_tokens_map` and the chat templates by name.
type Encoded = (Vec<Vec<u32>>, Vec<(String, String)>, Vec<(String, String)>);

/// Loads the folder `path` as `AutoTokenizer.from_pretrained` does, and encodes `texts`.
#[pyfunction]
pub(crate) fn encode_dir(
    path: PathBuf,
    texts: Vec<String>,
    add_special_tokens: bool,
) -> PyResult<Encoded> {
    let refused = |error: fastpack_tokenize::Error| PyValueError::new_err(error.to_string());
    let pretrained = Pretrained::from_dir(&path).map_err(refused)?;
    let special = if add_special_tokens { SpecialTokens::Add } else { SpecialTokens::Omit };
    let mut encoder = pretrained.tokenizer.encoder();
    let ids = texts
        .iter()
        .map(|text| {
            let mut encoding = Encoding::default();
            encoder.encode(text, &[], special, &mut encoding).map_err(refused)?;
            Ok(encoding.ids)
        })
        .collect::<PyResult<Vec<_>>>()?;
    let templates =
        pretrained.chat_templates.into_iter().map(|template| (template.name, template.source));
    Ok((ids, pretrained.special_tokens, templates.collect()))
}
