//! Frames survive the way, and nonsense is refused.

use cellar_instance::wire::{Frame, Hello, REQUEST_MAX, Request};
use proptest::prelude::*;

#[test]
fn every_frame_reads_back() {
    let hello = Hello { protocol: 1, version: "0.1.0".into(), pid: 7 };
    let words = vec!["sql".to_owned(), "-c".to_owned(), "select 'ä'".to_owned()];
    let frames = [
        Frame::Hello(hello),
        Frame::Request(Request { words, body: vec![0, 255, 10] }),
        Frame::Request(Request::default()),
        Frame::Stdout(vec![1; 1000]),
        Frame::Stderr(Vec::new()),
        Frame::Exit(2),
    ];
    let mut bytes = Vec::new();
    for frame in &frames {
        frame.write(&mut bytes).unwrap();
    }
    let mut stream = &bytes[..];
    for frame in frames {
        assert_eq!(Frame::read(&mut stream).unwrap(), Some(frame));
    }
    assert_eq!(Frame::read(&mut stream).unwrap(), None);
}

#[test]
fn a_request_that_is_too_long_is_refused_before_it_is_sent() {
    let request = Request { words: vec!["load".into()], body: vec![0; REQUEST_MAX] };
    let error = Frame::Request(request).encode().unwrap_err();
    assert_eq!(error.number(), 70113);
    assert!(error.next_step().is_some());
}

proptest! {
    #[test]
    fn any_bytes_are_frames_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut stream = &bytes[..];
        while let Ok(Some(_)) = Frame::read(&mut stream) {}
    }

    #[test]
    fn a_short_frame_of_any_kind_is_read_or_refused(
        kind in 0u8..8,
        payload in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = vec![kind];
        bytes.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
        bytes.extend(payload);
        let _ = Frame::read(&mut &bytes[..]);
    }
}
