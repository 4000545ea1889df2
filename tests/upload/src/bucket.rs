//! A stand-in for a bucket on S3, in memory, for `tests/fleet/objects`: s3s speaks the protocol, and a list takes the time of what it
//! lists. (s3s-fs walks all files of a bucket for each thousand.) Prints its address; then, for each line on stdin, a JSON object of the
//! requests since the last one: by kind their number, bytes received and bytes sent; `objects` has number and bytes of what is stored
//! below each first directory. Ends with stdin.

use async_trait::async_trait;
use futures_util::TryStreamExt;
use hyper::body::Bytes;
use s3s::dto::{
    DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, ETag, GetObjectInput, GetObjectOutput,
    ListObjectsV2Input, ListObjectsV2Output, Metadata, Object, PutObjectInput, PutObjectOutput,
    StreamingBlob, Timestamp,
};
use s3s::{Body, S3, S3Request, S3Response, S3Result, s3_error};
use std::collections::BTreeMap;
use std::io::stdin;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tracetee_tests_upload::s3::{Traffic, serve_as};

struct Stored {
    bytes: Bytes,
    meta: Option<Metadata>,
    modified: SystemTime,
    tag: ETag,
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<BTreeMap<String, Stored>>>);

#[async_trait]
impl S3 for Memory {
    async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let PutObjectInput { body, key, metadata, if_match, if_none_match, .. } = request.input;
        let chunks: Vec<Bytes> = match body {
            Some(body) => body.try_collect().await.map_err(|_| s3_error!(IncompleteBody))?,
            None => Vec::new(),
        };
        let mut objects = self.0.lock().unwrap();
        let known = objects.get(&key).map(|stored| &stored.tag);
        let is_other = if_match.is_some_and(|tag| tag.as_etag() != known);
        if is_other || (if_none_match.is_some() && known.is_some()) {
            return Err(s3_error!(PreconditionFailed));
        }
        let modified = SystemTime::now();
        let tag = ETag::Strong(format!("{modified:?}").replace(|c: char| !c.is_ascii_digit(), ""));
        let bytes = chunks.concat().into();
        objects.insert(key, Stored { bytes, meta: metadata, modified, tag: tag.clone() });
        Ok(S3Response::new(PutObjectOutput { e_tag: Some(tag), ..Default::default() }))
    }

    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let objects = self.0.lock().unwrap();
        let Some(found) = objects.get(&request.input.key) else {
            return Err(s3_error!(NoSuchKey));
        };
        Ok(S3Response::new(GetObjectOutput {
            body: Some(StreamingBlob::from(Body::from(found.bytes.clone()))),
            content_length: i64::try_from(found.bytes.len()).ok(),
            e_tag: Some(found.tag.clone()),
            last_modified: Some(Timestamp::from(found.modified)),
            metadata: found.meta.clone(),
            ..Default::default()
        }))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let ListObjectsV2Input { prefix, continuation_token, start_after, .. } = request.input;
        let prefix = prefix.unwrap_or_default();
        let after = continuation_token.or(start_after).unwrap_or_default();
        let objects = self.0.lock().unwrap();
        let from = after.max(prefix.clone());
        let below = objects
            .range::<String, _>((Excluded(from), Unbounded))
            .take_while(|(key, _)| key.starts_with(&prefix))
            .take(1001);
        let mut contents: Vec<Object> = below
            .map(|(key, stored)| Object {
                key: Some(key.clone()),
                last_modified: Some(Timestamp::from(stored.modified)),
                size: i64::try_from(stored.bytes.len()).ok(),
                e_tag: Some(stored.tag.clone()),
                ..Default::default()
            })
            .collect();
        let is_truncated = contents.len() > 1000;
        contents.truncate(1000);
        Ok(S3Response::new(ListObjectsV2Output {
            next_continuation_token: contents
                .last()
                .filter(|_| is_truncated)
                .and_then(|last| last.key.clone()),
            is_truncated: Some(is_truncated),
            contents: Some(contents),
            prefix: Some(prefix),
            ..Default::default()
        }))
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let mut objects = self.0.lock().unwrap();
        let deleted = |id: s3s::dto::ObjectIdentifier| {
            objects.remove(&id.key);
            DeletedObject { key: Some(id.key), ..Default::default() }
        };
        let deleted = request.input.delete.objects.into_iter().map(deleted).collect();
        let output = DeleteObjectsOutput { deleted: Some(deleted), ..Default::default() };
        Ok(S3Response::new(output))
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (traffic, memory) = (Arc::new(Traffic::default()), Memory::default());
    println!("{}", serve_as(&runtime, memory.clone(), "127.0.0.1:0", &traffic));
    for _ in stdin().lines().map_while(Result::ok) {
        let mut stored: BTreeMap<String, [usize; 2]> = BTreeMap::new();
        for (key, object) in &*memory.0.lock().unwrap() {
            let first = key.split('/').nth(1).unwrap_or_default().to_owned();
            let sums = stored.entry(first).or_default();
            *sums = [sums[0] + 1, sums[1] + object.bytes.len()];
        }
        println!("{}", serde_json::json!({"requests": traffic.take(), "objects": stored}));
    }
}
