//! Requests to web servers and stores, and objects of web servers.

pub(super) mod backoff;
pub(super) mod retrying_client;
pub(super) mod service;
pub(super) mod web_object;
