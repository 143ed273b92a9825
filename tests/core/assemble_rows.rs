//! Rows as Arrow columns against rows put together token by token.

use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::Range;
use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int32Type, UInt16Type, UInt32Type};
use arrow::record_batch::RecordBatch;
use fastpack_core::assemble::{DocumentsOfRows, Layout, Padding, batch_ranges, rows, schema};
use fastpack_core::config::{RowColumn, RowLayout};
use fastpack_core::document::store::DocumentStore;
use fastpack_core::document::{Documents, INPUTS, TrainedRun};
use fastpack_core::pack::{Piece, Plan};
use proptest::prelude::*;

const COLUMNS: [RowColumn; 4] =
    [RowColumn::InputIds, RowColumn::Labels, RowColumn::PositionIds, RowColumn::SeqLengths];

/// A document: its ids, and whether each is trained.
type Tokens = Vec<(u32, bool)>;

fn max(length: u32) -> NonZeroU32 {
    NonZeroU32::new(length).expect("a test's max_length is not 0")
}

/// Neighbouring trained tokens as runs.
fn runs(tokens: &Tokens) -> Vec<TrainedRun> {
    let mut runs: Vec<TrainedRun> = Vec::new();
    for (at, _) in (0..).zip(tokens).filter(|(_, (_, trained))| *trained) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(TrainedRun { start: at, end: at + 1, weight: 1.0 }),
        }
    }
    runs
}

fn store(documents: &[Tokens]) -> DocumentStore {
    let mut store = DocumentStore::default();
    for documents in documents.chunks(3) {
        let mut columns = Documents::new(Path::new("some.jsonl").into(), &[INPUTS]);
        for tokens in documents {
            let ids: Vec<u32> = tokens.iter().map(|(id, _)| *id).collect();
            columns.push(&[&ids], runs(tokens), 1);
        }
        store.push(columns, None);
    }
    store
}

fn column(batch: &RecordBatch, name: &str) -> Vec<Vec<i32>> {
    let lists = batch.column_by_name(name).expect("a column of the schema").as_list::<i32>();
    lists.iter().flatten().map(|list| list.as_primitive::<Int32Type>().values().to_vec()).collect()
}

/// The columns of a row, token by token, by the definition.
fn row_oracle(documents: &[Tokens], row: &[Piece]) -> [Vec<i32>; 4] {
    let mut columns: [Vec<i32>; 4] = Default::default();
    for piece in row {
        for position in 0..piece.length {
            let (id, trained) =
                documents[piece.document as usize][(piece.start + position) as usize];
            let id = i32::try_from(id).expect("a test's ids are small");
            columns[0].push(id);
            columns[1].push(if trained && position > 0 { id } else { -100 });
            columns[2].push(i32::try_from(position).expect("a test's documents are short"));
        }
        columns[3].push(i32::try_from(piece.length).expect("a test's documents are short"));
    }
    columns
}

/// Documents, and rows made of pieces of them.
fn planned() -> impl Strategy<Value = (Vec<Tokens>, Vec<Vec<Piece>>)> {
    let document = prop::collection::vec((0..200_000_u32, any::<bool>()), 1..30);
    prop::collection::vec(document, 1..8).prop_flat_map(|documents| {
        let sizes: Vec<usize> = documents.iter().map(Vec::len).collect();
        let piece =
            (0..documents.len(), any::<prop::sample::Index>(), any::<prop::sample::Index>())
                .prop_map(move |(document, start, length)| {
                    let start = start.index(sizes[document]);
                    let length = 1 + length.index(sizes[document] - start);
                    let small = |value: usize| u32::try_from(value).expect("small");
                    Piece::new(small(document), small(start), small(length))
                });
        let row = prop::collection::vec(piece, 1..5);
        (Just(documents), prop::collection::vec(row, 0..6))
    })
}

proptest! {
    #[test]
    fn columns_hold_what_the_pieces_say((documents, pieces) in planned()) {
        let store = store(&documents);
        let mut plan = Plan::new(max(1000));
        for row in &pieces {
            plan.push(row);
        }
        let batch = rows(&DocumentsOfRows::kept(&store, &plan), 0..plan.rows(), &Layout::plain(&COLUMNS)).expect("sound columns");
        for (at, row) in pieces.iter().enumerate() {
            let expected = row_oracle(&documents, row);
            for (name, values) in ["input_ids", "labels", "position_ids", "seq_lengths"].iter().zip(expected) {
                prop_assert_eq!(&column(&batch, name)[at], &values, "{} of row {}", name, at);
            }
        }
    }

    #[test]
    fn compact_columns_hold_ids_runs_of_labels_and_lengths((documents, pieces) in planned(), narrow: bool) {
        let documents: Vec<Tokens> = documents.into_iter().map(|document| {
            document.into_iter().map(|(id, trained)| (if narrow { id % 65_536 } else { id }, trained)).collect()
        }).collect();
        let store = store(&documents);
        let mut plan = Plan::new(max(1000));
        for row in &pieces {
            plan.push(row);
        }
        let layout = Layout::plain(&COLUMNS).stored_as(RowLayout::Compact, narrow.then_some(65_535));
        let batch = rows(&DocumentsOfRows::kept(&store, &plan), 0..plan.rows(), &layout).expect("sound columns");
        let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        prop_assert_eq!(names, ["input_ids", "seq_lengths", "label_spans"]);
        for (at, row) in pieces.iter().enumerate() {
            let [ids, labels, _, lengths] = row_oracle(&documents, row);
            let stored = batch.column(0).as_list::<i32>().value(at);
            let stored: Vec<u32> = if narrow {
                stored.as_primitive::<UInt16Type>().values().iter().copied().map(u32::from).collect()
            } else {
                stored.as_primitive::<UInt32Type>().values().to_vec()
            };
            prop_assert!(stored.iter().copied().eq(ids.iter().map(|id| id.unsigned_abs())));
            prop_assert_eq!(&column(&batch, "seq_lengths")[at], &lengths);
            let spans = &column(&batch, "label_spans")[at];
            prop_assert!(spans.is_sorted());
            let labelled = spans.chunks(2).flat_map(|span| span[0]..span[1]);
            let expected = (0..).zip(&labels).filter(|(_, label)| **label != -100).map(|(at, _)| at);
            prop_assert!(labelled.eq(expected));
        }
    }

    #[test]
    fn a_part_of_a_plan_is_a_part_of_its_rows((documents, pieces) in planned()) {
        let store = store(&documents);
        let mut plan = Plan::new(max(1000));
        for row in &pieces {
            plan.push(row);
        }
        let whole = rows(&DocumentsOfRows::kept(&store, &plan), 0..plan.rows(), &Layout::plain(&COLUMNS)).expect("sound columns");
        for start in 0..=plan.rows() {
            let part = rows(&DocumentsOfRows::kept(&store, &plan), start..plan.rows(), &Layout::plain(&COLUMNS)).expect("sound columns");
            prop_assert_eq!(part, whole.slice(start, plan.rows() - start));
        }
    }

    #[test]
    fn batches_cover_the_plan_in_order(
        lengths in prop::collection::vec(1..100_u32, 0..60), most_rows in 1..9_usize, most_tokens in 1..400_u64,
    ) {
        let mut plan = Plan::new(max(100));
        for &length in &lengths {
            plan.push(&[Piece::new(0, 0, length)]);
        }
        let most_rows = NonZeroUsize::new(most_rows).expect("at least 1");
        let ranges: Vec<Range<usize>> = batch_ranges(&plan, Padding::NONE, most_rows, most_tokens).collect();
        prop_assert_eq!(ranges[0].start, 0);
        prop_assert_eq!(ranges[ranges.len() - 1].end, lengths.len());
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        for range in ranges {
            let tokens: u64 = lengths[range.clone()].iter().copied().map(u64::from).sum();
            prop_assert!(range.len() <= most_rows.get());
            prop_assert!(tokens <= most_tokens || range.len() == 1);
            prop_assert!(!range.is_empty() || lengths.is_empty());
        }
    }
}

#[test]
fn a_plan_without_rows_gives_an_empty_batch_with_the_schema() {
    let plan = Plan::new(max(8));
    let most_rows = NonZeroUsize::MIN;
    assert!(batch_ranges(&plan, Padding::NONE, most_rows, 1).eq(std::iter::once(0..0)));
    let batch = rows(
        &DocumentsOfRows::kept(&DocumentStore::default(), &plan),
        0..0,
        &Layout::plain(&COLUMNS),
    )
    .expect("sound columns");
    assert_eq!((batch.num_rows(), batch.schema()), (0, schema::schema(&COLUMNS)));
}

#[test]
fn no_batch_outgrows_the_offsets_of_a_list_llama_factory_7526() {
    let mut plan = Plan::new(max(i32::MAX.unsigned_abs()));
    for _ in 0..4 {
        plan.push(&[Piece::new(0, 0, 1 << 30)]);
    }
    let ranges = batch_ranges(&plan, Padding::NONE, NonZeroUsize::MAX, u64::MAX);
    assert!(ranges.eq([0..1, 1..2, 2..3, 3..4]));
}

#[test]
fn batches_of_more_tokens_than_32_bits_count_are_cut_where_those_of_few_are() {
    let ranges = |unit: u32, most_tokens: u64| -> Vec<Range<usize>> {
        let mut plan = Plan::new(max(8 * unit));
        for tokens in [8, 1, 1, 5, 3, 3, 8, 8, 2, 7, 8, 8, 4, 1, 1, 1] {
            let piece = Piece::new(0, 0, tokens * unit);
            plan.push(&[piece]);
        }
        assert_eq!(plan.tokens(), 69 * u64::from(unit));
        batch_ranges(&plan, Padding::NONE, NonZeroUsize::MAX, most_tokens).collect()
    };
    // An Arrow list reaches one token less than sixteen of these units.
    let unit = 1_u32 << 27;
    for most in [1_u64, 3, 12] {
        assert_eq!(ranges(unit, most * u64::from(unit)), ranges(1, most));
    }
    assert_eq!(ranges(unit, u64::MAX), ranges(1, 15));
}

#[test]
fn a_plan_can_begin_at_a_later_document() {
    let mut store = store(&[vec![(1, true)], vec![(2, true)]]);
    store.push(
        {
            let mut documents = Documents::new(Path::new("some.jsonl").into(), &[INPUTS]);
            documents.push(&[&[7, 8]], runs(&vec![(7, true), (8, true)]), 1);
            documents
        },
        None,
    );
    store.retain(|number| number >= 2);
    let mut plan = Plan::starting_at(max(8), 2);
    plan.push(&[Piece::new(0, 0, 2)]);
    let batch =
        rows(&DocumentsOfRows::kept(&store, &plan), 0..1, &Layout::plain(&[RowColumn::InputIds]))
            .expect("sound columns");
    assert_eq!(column(&batch, "input_ids"), [[7, 8]]);
}

#[test]
fn columns_come_in_the_order_asked_for() {
    let schema = schema::schema(&[RowColumn::SeqLengths, RowColumn::InputIds]);
    let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
    assert_eq!(names, ["seq_lengths", "input_ids"]);
    assert!(
        schema
            .fields()
            .iter()
            .all(|field| *field.data_type() == DataType::new_list(DataType::Int32, true))
    );
}

#[test]
fn an_id_that_16_bits_do_not_hold_is_refused_by_its_record() {
    let store = store(&[vec![(5, true), (65_536, true)]]);
    let mut plan = Plan::new(max(8));
    plan.push(&[Piece::new(0, 0, 2)]);
    let layout = Layout::plain(&COLUMNS).stored_as(RowLayout::Compact, Some(40_000));
    let refused =
        rows(&DocumentsOfRows::kept(&store, &plan), 0..1, &layout).expect_err("an id of 17 bits");
    let said = refused.to_string();
    assert!(said.starts_with("invalid option `format.layout`: is \"compact\""), "{said}");
    assert!(said.contains("some.jsonl:1 has the id 65536"), "{said}");
}

#[test]
fn a_compact_schema_names_the_columns_of_its_rows() {
    let columns = [RowColumn::PositionIds, RowColumn::LossWeights, RowColumn::DocumentIds];
    let schema = Layout::plain(&columns).stored_as(RowLayout::Compact, None).schema();
    let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
    let stored = ["input_ids", "seq_lengths", "label_spans", "label_weights", "unpadded_lengths"];
    assert_eq!(names, stored);
    let shown = r#"["position_ids","loss_weights","document_ids"]"#;
    assert_eq!(schema.metadata()["fastpack.compact"], shown);
}

#[test]
fn the_schema_tells_datasets_its_features() {
    let schema = schema::schema(&[RowColumn::Labels]);
    assert_eq!(
        schema.metadata()["huggingface"],
        r#"{"info":{"features":{"labels":{"feature":{"dtype":"int32","_type":"Value"},"_type":"Sequence"}}}}"#
    );
    let reported = schema::with_report(&schema, r#"{"rows":1}"#);
    assert_eq!(reported.metadata()["fastpack"], r#"{"rows":1}"#);
    assert_eq!(reported.metadata()["huggingface"], schema.metadata()["huggingface"]);
}
