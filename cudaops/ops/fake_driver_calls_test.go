package ops

import (
	"time"

	"aicplan/cudaops/cuda"
)

// Version implements cuda.Driver.
func (d *fakeDriver) Version() (int, error) {
	if d.CUDA == 0 {
		return 13000, nil
	}
	return d.CUDA, nil
}

// Count implements cuda.Driver.
func (d *fakeDriver) Count() (int, error) { return len(d.Infos), nil }

// Info implements cuda.Driver.
func (d *fakeDriver) Info(dev cuda.Device) (cuda.DeviceInfo, error) {
	if int(dev) < 0 || int(dev) >= len(d.Infos) {
		return cuda.DeviceInfo{}, cuda.NewDriverError("cuDeviceGet", 101)
	}
	return d.Infos[dev], nil
}

// Primary implements cuda.Driver.
func (d *fakeDriver) Primary(dev cuda.Device) (cuda.Context, error) {
	if err := d.begin("cuDevicePrimaryCtxRetain"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	return cuda.Context(dev + 1), nil
}

// SetCurrent implements cuda.Driver.
func (d *fakeDriver) SetCurrent(cuda.Context) error { return nil }

// CanAccessPeer implements cuda.Driver.
func (d *fakeDriver) CanAccessPeer(a, b cuda.Device) (bool, error) { return a != b, nil }

// EnablePeer implements cuda.Driver.
func (d *fakeDriver) EnablePeer(cuda.Context) error { return nil }

// CopyPeer implements cuda.Driver.
func (d *fakeDriver) CopyPeer(_ cuda.Ptr, _ cuda.Context, _ cuda.Ptr, _ cuda.Context, bytes int64,
	s cuda.Stream) error {
	return d.Enqueue(s, fakeWork{Name: "memcpy peer", Seconds: float64(bytes) / 350e9, Watts: 150})
}

// Alloc implements cuda.Driver.
func (d *fakeDriver) Alloc(bytes int64) (cuda.Ptr, error) {
	if err := d.begin("cuMemAlloc"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	if bytes <= 0 {
		return 0, cuda.NewDriverError("cuMemAlloc", cuda.CodeInvalidValue)
	}

	if d.used+bytes > d.Infos[0].MemoryBytes {
		return 0, cuda.NewDriverError("cuMemAlloc", cuda.CodeOutOfMemory)
	}

	d.used += bytes
	d.next = (d.next + 1<<21) &^ (1<<21 - 1)
	p := cuda.Ptr(d.next)
	d.next += uint64(bytes)
	d.allocs[p] = bytes
	d.Open++

	return p, nil
}

// Free implements cuda.Driver.
func (d *fakeDriver) Free(p cuda.Ptr) error {
	if err := d.begin("cuMemFree"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	n, ok := d.allocs[p]
	if !ok {
		return cuda.NewDriverError("cuMemFree", cuda.CodeInvalidValue)
	}

	delete(d.allocs, p)
	d.used -= n
	d.Open--

	return nil
}

// MemInfo implements cuda.Driver.
func (d *fakeDriver) MemInfo() (free, total int64, err error) {
	defer d.lock()()
	return d.Infos[0].MemoryBytes - d.used, d.Infos[0].MemoryBytes, nil
}

// HostAlloc implements cuda.Driver.
func (d *fakeDriver) HostAlloc(bytes int) (cuda.HostMemory, error) {
	if err := d.begin("cuMemHostAlloc"); err != nil {
		return cuda.HostMemory{}, err
	}
	defer d.mu.Unlock()
	d.next += 1 << 20
	h := cuda.HostMemory{Bytes: make([]byte, bytes), Device: cuda.Ptr(d.next)}
	d.next += uint64(bytes)
	d.hosts = append(d.hosts, h)

	return h, nil
}

// Memset8 implements cuda.Driver.
func (d *fakeDriver) Memset8(_ cuda.Ptr, _ byte, bytes int64, s cuda.Stream) error {
	return d.Enqueue(s, fakeWork{Name: "memset", Seconds: float64(bytes) / 3e12, Watts: 200})
}

// Memset32 implements cuda.Driver.
func (d *fakeDriver) Memset32(_ cuda.Ptr, _ uint32, words int64, s cuda.Stream) error {
	return d.Enqueue(s, fakeWork{Name: "memset", Seconds: float64(4*words) / 3e12, Watts: 200})
}

// CopyDtoH implements cuda.Driver. It returns zeros, because device memory has no content.
func (d *fakeDriver) CopyDtoH(b []byte, _ cuda.Ptr) error {
	clear(b)
	return nil
}

// NewStream implements cuda.Driver.
func (d *fakeDriver) NewStream() (cuda.Stream, error) {
	if err := d.begin("cuStreamCreate"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	s := cuda.Stream(d.handle())
	d.streams[s] = &fakeStream{}
	return s, nil
}

// SyncStream implements cuda.Driver.
func (d *fakeDriver) SyncStream(s cuda.Stream) error {
	if err := d.begin("cuStreamSynchronize"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	return d.drain(s)
}

// NewEvent implements cuda.Driver.
func (d *fakeDriver) NewEvent() (cuda.Event, error) {
	if err := d.begin("cuEventCreate"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	return cuda.Event(d.handle()), nil
}

// Record implements cuda.Driver.
func (d *fakeDriver) Record(e cuda.Event, s cuda.Stream) error {
	if err := d.begin("cuEventRecord"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	return d.enqueue(s, fakeWork{Name: "event", Do: func(d *fakeDriver) *cuda.DriverError {
		d.events[e] = d.Clock.Now()
		return nil
	}})
}

// Query implements cuda.Driver. It drains all streams first, because time is virtual.
func (d *fakeDriver) Query(e cuda.Event) (bool, error) {
	if err := d.begin("cuEventQuery"); err != nil {
		return false, err
	}
	defer d.mu.Unlock()

	for s := range d.streams {
		if err := d.drain(s); err != nil {
			return false, err
		}
	}

	_, ok := d.events[e]
	return ok, nil
}

// Elapsed implements cuda.Driver.
func (d *fakeDriver) Elapsed(a, b cuda.Event) (float64, error) {
	if err := d.begin("cuEventElapsedTime"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	x, okA := d.events[a]
	y, okB := d.events[b]
	if !okA || !okB {
		return 0, cuda.NewDriverError("cuEventElapsedTime", cuda.CodeNotReady)
	}

	t := y - x
	if d.Resolution > 0 {
		t = (t + d.Resolution/2) / d.Resolution * d.Resolution
	}

	return float64(t) / float64(time.Millisecond), nil
}

// LoadModule implements cuda.Driver.
func (d *fakeDriver) LoadModule([]byte) (cuda.Module, error) {
	if err := d.begin("cuModuleLoadData"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	return cuda.Module(d.handle()), nil
}

// Function implements cuda.Driver. It accepts every name.
func (d *fakeDriver) Function(_ cuda.Module, name string) (cuda.Function, error) {
	if err := d.begin("cuModuleGetFunction"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	f := cuda.Function(d.handle())
	d.names[f] = name
	return f, nil
}

// SetMaxDynamicShared implements cuda.Driver.
func (d *fakeDriver) SetMaxDynamicShared(f cuda.Function, bytes int) error {
	if bytes > 227<<10 {
		return cuda.NewDriverError("cuFuncSetAttribute", cuda.CodeInvalidValue)
	}
	defer d.lock()()
	d.shared[f] = bytes
	return nil
}

// Launch implements cuda.Driver.
func (d *fakeDriver) Launch(k cuda.Launch, s cuda.Stream) error {
	if err := d.begin("cuLaunchKernel"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if k.SharedMemory > max(48<<10, d.shared[k.Func]) {
		return cuda.NewDriverError("cuLaunchKernel", cuda.CodeInvalidValue)
	}
	return d.enqueue(s, d.launch(k))
}

// BeginCapture implements cuda.Driver.
func (d *fakeDriver) BeginCapture(s cuda.Stream) error {
	if err := d.begin("cuStreamBeginCapture"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	st := d.streams[s]
	if st.capturing {
		return cuda.NewDriverError("cuStreamBeginCapture", cuda.CodeInvalidValue)
	}

	st.capturing, st.captured, st.bad = true, nil, false
	return nil
}

// EndCapture implements cuda.Driver.
func (d *fakeDriver) EndCapture(s cuda.Stream) (cuda.Graph, error) {
	if err := d.begin("cuStreamEndCapture"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	st := d.streams[s]
	st.capturing = false
	if st.bad {
		return 0, cuda.NewDriverError("cuStreamEndCapture", 901)
	}

	g := uintptr(d.handle())
	d.graphs[g] = st.captured
	d.Open++

	return cuda.Graph(g), nil
}

// Instantiate implements cuda.Driver.
func (d *fakeDriver) Instantiate(g cuda.Graph) (cuda.GraphExec, error) {
	if err := d.begin("cuGraphInstantiate"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	x := uintptr(d.handle())
	d.graphs[x] = d.graphs[uintptr(g)]
	d.Open++

	return cuda.GraphExec(x), nil
}

// LaunchGraph implements cuda.Driver.
func (d *fakeDriver) LaunchGraph(x cuda.GraphExec, s cuda.Stream) error {
	if err := d.begin("cuGraphLaunch"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	work, ok := d.graphs[uintptr(x)]
	if !ok {
		return cuda.NewDriverError("cuGraphLaunch", cuda.CodeInvalidValue)
	}

	for _, w := range work {
		if err := d.enqueue(s, w); err != nil {
			return err
		}
	}

	return nil
}

// DestroyGraph implements cuda.Driver.
func (d *fakeDriver) DestroyGraph(g cuda.Graph) error { return d.forget(uintptr(g)) }

// DestroyExec implements cuda.Driver.
func (d *fakeDriver) DestroyExec(x cuda.GraphExec) error { return d.forget(uintptr(x)) }

func (d *fakeDriver) forget(h uintptr) error {
	defer d.lock()()
	if _, ok := d.graphs[h]; !ok {
		return cuda.NewDriverError("cuGraphDestroy", cuda.CodeInvalidValue)
	}

	delete(d.graphs, h)
	d.Open--
	return nil
}
