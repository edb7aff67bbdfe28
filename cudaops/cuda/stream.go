package cuda

import (
	"unsafe"

	"aicplan/cudaops/dl"
)

const (
	streamNonBlocking = 1
	captureThreadMode = 1 // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
)

func (l *DriverLibrary) NewStream() (Stream, error) {
	var s Stream
	err := l.call("cuStreamCreate", l.fn.streamCreate, uintptr(unsafe.Pointer(&s)), streamNonBlocking)
	return s, err
}

func (l *DriverLibrary) SyncStream(s Stream) error {
	return l.call("cuStreamSynchronize", l.fn.streamSync, uintptr(s))
}

func (l *DriverLibrary) NewEvent() (Event, error) {
	var e Event
	err := l.call("cuEventCreate", l.fn.eventCreate, uintptr(unsafe.Pointer(&e)), 0)
	return e, err
}

func (l *DriverLibrary) Record(e Event, s Stream) error {
	return l.call("cuEventRecord", l.fn.eventRecord, uintptr(e), uintptr(s))
}

func (l *DriverLibrary) RecordExternal(e Event, s Stream) error {
	const external = 1
	return l.call("cuEventRecordWithFlags", l.fn.eventRecordWithFlags, uintptr(e), uintptr(s), external)
}

func (l *DriverLibrary) Query(e Event) (bool, error) {
	return l.done("cuEventQuery", l.fn.eventQuery, uintptr(e))
}

func (l *DriverLibrary) Idle(s Stream) (bool, error) {
	return l.done("cuStreamQuery", l.fn.streamQuery, uintptr(s))
}

// done calls a query. Unfinished work is frequent, so that no error is made for it.
func (l *DriverLibrary) done(name string, fn, handle uintptr) (bool, error) {
	switch code := int(int32(dl.Call(fn, handle))); code {
	case 0:
		return true, nil
	case CodeNotReady:
		return false, nil
	default:
		return false, l.failure(name, code)
	}
}

func (l *DriverLibrary) Elapsed(start, end Event) (float64, error) {
	var ms float32
	err := l.call("cuEventElapsedTime", l.fn.elapsed, uintptr(unsafe.Pointer(&ms)), uintptr(start), uintptr(end))
	return float64(ms), err
}

func (l *DriverLibrary) BeginCapture(s Stream) error {
	return l.call("cuStreamBeginCapture", l.fn.beginCapture, uintptr(s), captureThreadMode)
}

func (l *DriverLibrary) EndCapture(s Stream) (Graph, error) {
	var g Graph
	err := l.call("cuStreamEndCapture", l.fn.endCapture, uintptr(s), uintptr(unsafe.Pointer(&g)))
	return g, err
}

func (l *DriverLibrary) Instantiate(g Graph) (GraphExec, error) {
	var x GraphExec
	err := l.call("cuGraphInstantiateWithFlags", l.fn.instantiate, uintptr(unsafe.Pointer(&x)), uintptr(g), 0)
	return x, err
}

func (l *DriverLibrary) Upload(x GraphExec, s Stream) error {
	return l.call("cuGraphUpload", l.fn.upload, uintptr(x), uintptr(s))
}

func (l *DriverLibrary) LaunchGraph(x GraphExec, s Stream) error {
	return l.call("cuGraphLaunch", l.fn.graphLaunch, uintptr(x), uintptr(s))
}

func (l *DriverLibrary) DestroyGraph(g Graph) error {
	return l.call("cuGraphDestroy", l.fn.graphDestroy, uintptr(g))
}

func (l *DriverLibrary) DestroyExec(x GraphExec) error {
	return l.call("cuGraphExecDestroy", l.fn.execDestroy, uintptr(x))
}
