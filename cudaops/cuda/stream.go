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
	err := l.call(l.cuStreamCreate, uintptr(unsafe.Pointer(&s)), streamNonBlocking)
	return s, err
}

func (l *DriverLibrary) SyncStream(s Stream) error {
	return l.call(l.cuStreamSynchronize, uintptr(s))
}

func (l *DriverLibrary) NewEvent() (Event, error) {
	var e Event
	err := l.call(l.cuEventCreate, uintptr(unsafe.Pointer(&e)), 0)
	return e, err
}

func (l *DriverLibrary) Record(e Event, s Stream) error {
	return l.call(l.cuEventRecord, uintptr(e), uintptr(s))
}

func (l *DriverLibrary) RecordExternal(e Event, s Stream) error {
	const external = 1
	return l.call(l.cuEventRecordWithFlags, uintptr(e), uintptr(s), external)
}

func (l *DriverLibrary) Query(e Event) (bool, error) {
	return l.done(l.cuEventQuery, uintptr(e))
}

func (l *DriverLibrary) Idle(s Stream) (bool, error) {
	return l.done(l.cuStreamQuery, uintptr(s))
}

// done calls a query. Unfinished work is frequent, so that no error is made for it.
func (l *DriverLibrary) done(f dl.Symbol, handle uintptr) (bool, error) {
	switch code := int(int32(dl.Call(f.At, handle))); code {
	case 0:
		return true, nil
	case CodeNotReady:
		return false, nil
	default:
		return false, l.failure(f.Name, code)
	}
}

func (l *DriverLibrary) Elapsed(start, end Event) (float64, error) {
	var ms float32
	err := l.call(l.elapsed, uintptr(unsafe.Pointer(&ms)), uintptr(start), uintptr(end))
	return float64(ms), err
}

func (l *DriverLibrary) BeginCapture(s Stream) error {
	return l.call(l.cuStreamBeginCapture_v2, uintptr(s), captureThreadMode)
}

func (l *DriverLibrary) EndCapture(s Stream) (Graph, error) {
	var g Graph
	err := l.call(l.cuStreamEndCapture, uintptr(s), uintptr(unsafe.Pointer(&g)))
	return g, err
}

func (l *DriverLibrary) Instantiate(g Graph) (GraphExec, error) {
	var x GraphExec
	err := l.call(l.cuGraphInstantiateWithFlags, uintptr(unsafe.Pointer(&x)), uintptr(g), 0)
	return x, err
}

func (l *DriverLibrary) Upload(x GraphExec, s Stream) error {
	return l.call(l.cuGraphUpload, uintptr(x), uintptr(s))
}

func (l *DriverLibrary) LaunchGraph(x GraphExec, s Stream) error {
	return l.call(l.cuGraphLaunch, uintptr(x), uintptr(s))
}

func (l *DriverLibrary) DestroyGraph(g Graph) error {
	return l.call(l.cuGraphDestroy, uintptr(g))
}

func (l *DriverLibrary) DestroyExec(x GraphExec) error {
	return l.call(l.cuGraphExecDestroy, uintptr(x))
}
