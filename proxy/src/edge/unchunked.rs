//! Takes the chunks off answers to HTTP/1.0 clients, which know none (RFC 9112, section 6.1).
//!
//! Pingora says that an answer comes in chunks, where its pod speaks HTTP/2 and tells no length, behind the
//! last of its hooks. Its modules come later than that.

use super::line::is_endless;
use async_trait::async_trait;
use http::Version;
use http::header::TRANSFER_ENCODING;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::modules::http::{HttpModule, HttpModuleBuilder, Module};
use std::any::Any;

/// Makes one [`Unchunked`] for each request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Builder;

impl HttpModuleBuilder for Builder {
    fn init(&self) -> Module {
        Box::new(Unchunked::default())
    }
}

#[derive(Debug, Default)]
struct Unchunked {
    /// Whether its client speaks HTTP/1.0.
    old: bool,
}

#[async_trait]
impl HttpModule for Unchunked {
    async fn request_header_filter(&mut self, request: &mut RequestHeader) -> pingora::Result<()> {
        self.old = request.version == Version::HTTP_10;
        Ok(())
    }

    async fn response_header_filter(
        &mut self,
        response: &mut ResponseHeader,
        _: bool,
    ) -> pingora::Result<()> {
        if self.old {
            response.remove_header(&TRANSFER_ENCODING);
        }
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Whether nothing but the end of the client's connection can end an answer.
pub(super) fn ends_with_connection(request: &RequestHeader, response: &ResponseHeader) -> bool {
    request.version == Version::HTTP_10 && is_endless(request, response)
}
