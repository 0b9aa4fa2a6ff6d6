//! Having a provider take back a refresh token (RFC 7009), as a request: `openidconnect`'s own takes no
//! provider on this machine.

use data_encoding::BASE64;
use openidconnect::http::{self, Request, header};
use openidconnect::{ClientId, ClientSecret, HttpRequest};
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

/// Who asks, and how it proves that.
pub(super) struct Asker<'a> {
    pub(super) id: &'a ClientId,
    pub(super) secret: Option<&'a ClientSecret>,
    /// Whether the secret travels in the body.
    pub(super) in_body: bool,
}

/// The request that takes `token` back.
pub(super) fn request(
    at: &Url,
    token: &str,
    asker: &Asker<'_>,
) -> Result<HttpRequest, http::Error> {
    let mut form = Serializer::new(String::new());
    form.append_pair("token", token)
        .append_pair("token_type_hint", "refresh_token");
    let mut request = Request::post(at.as_str())
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(header::ACCEPT, "application/json");
    match asker.secret {
        Some(secret) if !asker.in_body => {
            request = request.header(header::AUTHORIZATION, basic(asker.id, secret));
        }
        Some(secret) => {
            form.append_pair("client_id", asker.id)
                .append_pair("client_secret", secret.secret());
        }
        None => {
            form.append_pair("client_id", asker.id);
        }
    }
    request.body(form.finish().into_bytes())
}

/// RFC 6749, section 2.3.1: both are form-encoded before they are joined.
fn basic(id: &ClientId, secret: &ClientSecret) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret.secret()));
    format!("Basic {}", BASE64.encode(pair.as_bytes()))
}
