//! What gRPC is made of, without its code generator: messages both ways on one HTTP/2 stream, for as
//! long as both sides like, and the status in the trailers.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, TryStreamExt, stream};
use http::{HeaderMap, HeaderValue, header};
use http_body_util::StreamBody;
use hyper::body::Frame;

use super::Sample;

/// Sends every byte back as it came, and then status 0 (OK).
pub(super) async fn echo(State(sample): State<Arc<Sample>>, body: Body) -> Response {
    let status = HeaderMap::from_iter([(
        header::HeaderName::from_static("grpc-status"),
        HeaderValue::from_static("0"),
    )]);
    let frames = body
        .into_data_stream()
        .map_ok(Frame::data)
        .chain(stream::once(async { Ok(Frame::trailers(status)) }));
    let mut response = Body::new(StreamBody::new(frames)).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/grpc"),
    );
    if let Ok(pod) = HeaderValue::from_str(&sample.config.pod) {
        headers.insert("x-pod", pod);
    }
    response
}
