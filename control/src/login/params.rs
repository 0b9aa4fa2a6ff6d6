//! Query parameters of login's pages.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// Parameters of a query, each once. One that is given twice counts as not given: two readers
/// could choose differently (RFC 6749, section 3.1).
#[derive(Debug, Default)]
pub(super) struct Params(BTreeMap<String, String>);

impl Params {
    /// The parameter of that name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn parse(query: &str) -> Self {
        let mut once = BTreeMap::new();
        let mut twice = Vec::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()).into_owned() {
            if once.insert(name.clone(), value).is_some() {
                twice.push(name);
            }
        }
        once.retain(|name, _| !twice.contains(name));
        Self(once)
    }
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}
