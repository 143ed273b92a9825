//! Compiles the source of a template to a tree.

pub(crate) mod checks;
pub(crate) mod compile;
pub(crate) mod enclosing;
pub(crate) mod expression;
pub(crate) mod filters;
pub(crate) mod lexer;
pub(crate) mod methods;
pub(crate) mod operators;
pub(crate) mod predicates;
pub(crate) mod refused_statements;
pub(crate) mod scope;
pub(crate) mod template_parser;
pub(crate) mod tree;
pub(crate) mod uniform_loops;
pub(crate) mod visit;
