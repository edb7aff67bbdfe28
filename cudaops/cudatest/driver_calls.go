package cudatest

import (
	"time"

	"aicplan/cudaops/driver"
)

// Version implements driver.API.
func (d *Driver) Version() (int, error) {
	if d.CUDA == 0 {
		return 13000, nil
	}
	return d.CUDA, nil
}

// Count implements driver.API.
func (d *Driver) Count() (int, error) { return len(d.Infos), nil }

// Info implements driver.API.
func (d *Driver) Info(dev driver.Device) (driver.Info, error) {
	if int(dev) < 0 || int(dev) >= len(d.Infos) {
		return driver.Info{}, driver.NewError("cuDeviceGet", driver.CodeInvalidDevice)
	}
	return d.Infos[dev], nil
}

// Attribute implements driver.API.
func (d *Driver) Attribute(driver.Device, driver.Attribute) (int, error) { return 0, nil }

// Primary implements driver.API.
func (d *Driver) Primary(dev driver.Device) (driver.Context, error) {
	if err := d.begin("cuDevicePrimaryCtxRetain"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	return driver.Context(dev + 1), nil
}

// ReleasePrimary implements driver.API.
func (d *Driver) ReleasePrimary(driver.Device) error { return nil }

// SetCurrent implements driver.API.
func (d *Driver) SetCurrent(driver.Context) error { return nil }

// Synchronize implements driver.API.
func (d *Driver) Synchronize() error {
	if err := d.begin("cuCtxSynchronize"); err != nil {
		return err
	}
	defer d.mu.Unlock()

	for s := range d.streams {
		if err := d.drain(s); err != nil {
			return err
		}
	}
	return nil
}

// CanAccessPeer implements driver.API.
func (d *Driver) CanAccessPeer(a, b driver.Device) (bool, error) { return !d.NoPeer && a != b, nil }

// EnablePeer implements driver.API.
func (d *Driver) EnablePeer(driver.Context) error { return nil }

// Alloc implements driver.API.
func (d *Driver) Alloc(bytes int64) (driver.Ptr, error) {
	if err := d.begin("cuMemAlloc"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	if bytes <= 0 {
		return 0, driver.NewError("cuMemAlloc", driver.CodeInvalidValue)
	}

	if d.used+bytes > d.Infos[0].MemoryBytes {
		return 0, driver.NewError("cuMemAlloc", driver.CodeOutOfMemory)
	}

	d.used += bytes
	d.next = (d.next + 1<<21) &^ (1<<21 - 1)
	p := driver.Ptr(d.next)
	d.next += uint64(bytes)
	d.allocs[p] = bytes
	d.Open++

	return p, nil
}

// Free implements driver.API.
func (d *Driver) Free(p driver.Ptr) error {
	if err := d.begin("cuMemFree"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	n, ok := d.allocs[p]
	if !ok {
		return driver.NewError("cuMemFree", driver.CodeInvalidValue)
	}

	delete(d.allocs, p)
	d.used -= n
	d.Open--

	return nil
}

// MemInfo implements driver.API.
func (d *Driver) MemInfo() (free, total int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Infos[0].MemoryBytes - d.used, d.Infos[0].MemoryBytes, nil
}

// HostAlloc implements driver.API.
func (d *Driver) HostAlloc(bytes int) (driver.Host, error) {
	if err := d.begin("cuMemHostAlloc"); err != nil {
		return driver.Host{}, err
	}
	defer d.mu.Unlock()
	d.next += 1 << 20
	h := driver.Host{Bytes: make([]byte, bytes), Device: driver.Ptr(d.next)}
	d.next += uint64(bytes)
	d.hosts = append(d.hosts, h)

	return h, nil
}

// HostFree implements driver.API.
func (d *Driver) HostFree(driver.Host) error { return nil }

// Memset8 implements driver.API.
func (d *Driver) Memset8(_ driver.Ptr, _ byte, bytes int64, s driver.Stream) error {
	return d.Enqueue(s, Work{Name: "memset", Seconds: float64(bytes) / 3e12, Watts: 200})
}

// Memset32 implements driver.API.
func (d *Driver) Memset32(_ driver.Ptr, _ uint32, words int64, s driver.Stream) error {
	return d.Enqueue(s, Work{Name: "memset", Seconds: float64(4*words) / 3e12, Watts: 200})
}

// CopyDtoD implements driver.API.
func (d *Driver) CopyDtoD(_, _ driver.Ptr, bytes int64, s driver.Stream) error {
	return d.Enqueue(s, Work{Name: "memcpy", Seconds: float64(bytes) / 2e12, Watts: 300})
}

// CopyHtoD implements driver.API.
func (d *Driver) CopyHtoD(driver.Ptr, []byte) error { return nil }

// CopyDtoH implements driver.API. It returns zeros, because device memory has no content.
func (d *Driver) CopyDtoH(b []byte, _ driver.Ptr) error {
	clear(b)
	return nil
}

// CopyPeer implements driver.API.
func (d *Driver) CopyPeer(_ driver.Ptr, _ driver.Context, _ driver.Ptr, _ driver.Context, bytes int64,
	s driver.Stream) error {
	return d.Enqueue(s, Work{Name: "memcpy peer", Seconds: float64(bytes) / 350e9, Watts: 150})
}

// NewStream implements driver.API.
func (d *Driver) NewStream() (driver.Stream, error) {
	if err := d.begin("cuStreamCreate"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	s := driver.Stream(d.handle())
	d.streams[s] = &stream{}
	return s, nil
}

// DestroyStream implements driver.API.
func (d *Driver) DestroyStream(s driver.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.streams, s)
	return nil
}

// SyncStream implements driver.API.
func (d *Driver) SyncStream(s driver.Stream) error {
	if err := d.begin("cuStreamSynchronize"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	return d.drain(s)
}

// NewEvent implements driver.API.
func (d *Driver) NewEvent() (driver.Event, error) {
	if err := d.begin("cuEventCreate"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	return driver.Event(d.handle()), nil
}

// DestroyEvent implements driver.API.
func (d *Driver) DestroyEvent(driver.Event) error { return nil }

// Record implements driver.API.
func (d *Driver) Record(e driver.Event, s driver.Stream) error {
	if err := d.begin("cuEventRecord"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	return d.enqueue(s, Work{Name: "event", Do: func(d *Driver) *driver.Error {
		d.events[e] = d.Clock.Now()
		return nil
	}})
}

// SyncEvent implements driver.API.
func (d *Driver) SyncEvent(driver.Event) error { return d.Synchronize() }

// Query implements driver.API. It drains all streams first, because time is virtual.
func (d *Driver) Query(e driver.Event) (bool, error) {
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

// Elapsed implements driver.API.
func (d *Driver) Elapsed(a, b driver.Event) (float64, error) {
	if err := d.begin("cuEventElapsedTime"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	x, okA := d.events[a]
	y, okB := d.events[b]
	if !okA || !okB {
		return 0, driver.NewError("cuEventElapsedTime", driver.CodeNotReady)
	}

	t := y - x
	if d.Resolution > 0 {
		t = (t + d.Resolution/2) / d.Resolution * d.Resolution
	}

	return float64(t) / float64(time.Millisecond), nil
}

// LoadModule implements driver.API.
func (d *Driver) LoadModule([]byte) (driver.Module, error) {
	if err := d.begin("cuModuleLoadData"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	return driver.Module(d.handle()), nil
}

// UnloadModule implements driver.API.
func (d *Driver) UnloadModule(driver.Module) error { return nil }

// Function implements driver.API. It accepts every name.
func (d *Driver) Function(_ driver.Module, name string) (driver.Function, error) {
	if err := d.begin("cuModuleGetFunction"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	f := driver.Function(d.handle())
	d.names[f] = name
	return f, nil
}

// SetMaxDynamicShared implements driver.API.
func (d *Driver) SetMaxDynamicShared(f driver.Function, bytes int) error {
	if bytes > 227<<10 {
		return driver.NewError("cuFuncSetAttribute", driver.CodeInvalidValue)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shared[f] = bytes
	return nil
}

// Launch implements driver.API.
func (d *Driver) Launch(k driver.Launch, s driver.Stream) error {
	if err := d.begin("cuLaunchKernel"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if k.SharedMemory > max(48<<10, d.shared[k.Func]) {
		return driver.NewError("cuLaunchKernel", driver.CodeInvalidValue)
	}
	return d.enqueue(s, d.launch(k))
}

// BeginCapture implements driver.API.
func (d *Driver) BeginCapture(s driver.Stream) error {
	if err := d.begin("cuStreamBeginCapture"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	st := d.streams[s]
	if st.capturing {
		return driver.NewError("cuStreamBeginCapture", driver.CodeInvalidValue)
	}

	st.capturing, st.captured, st.bad = true, nil, false
	return nil
}

// EndCapture implements driver.API.
func (d *Driver) EndCapture(s driver.Stream) (driver.Graph, error) {
	if err := d.begin("cuStreamEndCapture"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	st := d.streams[s]
	st.capturing = false
	if st.bad {
		return 0, driver.NewError("cuStreamEndCapture", driver.CodeCaptureInvalid)
	}

	g := uintptr(d.handle())
	d.graphs[g] = st.captured
	d.Open++

	return driver.Graph(g), nil
}

// Instantiate implements driver.API.
func (d *Driver) Instantiate(g driver.Graph) (driver.GraphExec, error) {
	if err := d.begin("cuGraphInstantiate"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	x := uintptr(d.handle())
	d.graphs[x] = d.graphs[uintptr(g)]
	d.Open++

	return driver.GraphExec(x), nil
}

// Upload implements driver.API.
func (d *Driver) Upload(driver.GraphExec, driver.Stream) error { return nil }

// LaunchGraph implements driver.API.
func (d *Driver) LaunchGraph(x driver.GraphExec, s driver.Stream) error {
	if err := d.begin("cuGraphLaunch"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	work, ok := d.graphs[uintptr(x)]
	if !ok {
		return driver.NewError("cuGraphLaunch", driver.CodeInvalidValue)
	}

	for _, w := range work {
		if err := d.enqueue(s, w); err != nil {
			return err
		}
	}

	return nil
}

// DestroyGraph implements driver.API.
func (d *Driver) DestroyGraph(g driver.Graph) error { return d.forget(uintptr(g)) }

// DestroyExec implements driver.API.
func (d *Driver) DestroyExec(x driver.GraphExec) error { return d.forget(uintptr(x)) }

func (d *Driver) forget(h uintptr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.graphs[h]; !ok {
		return driver.NewError("cuGraphDestroy", driver.CodeInvalidValue)
	}

	delete(d.graphs, h)
	d.Open--
	return nil
}
