package driver

import (
	"fmt"
	"unsafe"

	"aicplan/cudaops/dl"
)

// Spec describes the driver's library.
var Spec = dl.Spec{
	Name:    "the CUDA driver",
	Sonames: []string{"libcuda.so.1"},
	Global:  true,
	Hint:    "it comes with the NVIDIA kernel driver; inside a container start it with --gpus all",
}

// Library implements API with the real driver.
type Library struct {
	lib *dl.Library
	fn  table
}

var _ API = (*Library)(nil)

// table contains the addresses of the driver's functions.
type table struct {
	errorName, errorString uintptr

	initialize, version, count, get, name, uuid, pci, attribute, totalMem uintptr
	retain, release, setCurrent, synchronize, canPeer, enablePeer         uintptr

	alloc, free, memInfo, hostAlloc, hostFree, hostPointer        uintptr
	memset8, memset32, copyDtoD, copyHtoD, copyDtoH, copyPeer     uintptr
	streamCreate, streamDestroy, streamSync                       uintptr
	eventCreate, eventDestroy, eventRecord, eventSync, eventQuery uintptr
	elapsed                                                       uintptr
	moduleLoad, moduleUnload, moduleFunction, funcSetAttr, launch uintptr
	beginCapture, endCapture, instantiate, upload, graphLaunch    uintptr
	graphDestroy, execDestroy                                     uintptr
}

// Open opens and initializes the driver. The error is a *dl.NotFoundError if there is no driver, and wraps
// an *Error if it does not work, for example without a device.
func Open() (*Library, error) {
	lib, err := dl.Open(Spec)
	if err != nil {
		return nil, err
	}

	l := &Library{lib: lib}
	f := &l.fn
	err = lib.Bind(map[string]*uintptr{
		"cuGetErrorName": &f.errorName, "cuGetErrorString": &f.errorString,
		"cuInit": &f.initialize, "cuDriverGetVersion": &f.version,
		"cuDeviceGetCount": &f.count, "cuDeviceGet": &f.get, "cuDeviceGetName": &f.name,
		"cuDeviceGetUuid_v2": &f.uuid, "cuDeviceGetPCIBusId": &f.pci,
		"cuDeviceGetAttribute": &f.attribute, "cuDeviceTotalMem_v2": &f.totalMem,
		"cuDevicePrimaryCtxRetain": &f.retain, "cuDevicePrimaryCtxRelease_v2": &f.release,
		"cuCtxSetCurrent": &f.setCurrent, "cuCtxSynchronize": &f.synchronize,
		"cuDeviceCanAccessPeer": &f.canPeer, "cuCtxEnablePeerAccess": &f.enablePeer,
		"cuMemAlloc_v2": &f.alloc, "cuMemFree_v2": &f.free, "cuMemGetInfo_v2": &f.memInfo,
		"cuMemHostAlloc": &f.hostAlloc, "cuMemFreeHost": &f.hostFree,
		"cuMemHostGetDevicePointer_v2": &f.hostPointer,
		"cuMemsetD8Async":              &f.memset8, "cuMemsetD32Async": &f.memset32,
		"cuMemcpyDtoDAsync_v2": &f.copyDtoD, "cuMemcpyHtoD_v2": &f.copyHtoD,
		"cuMemcpyDtoH_v2": &f.copyDtoH, "cuMemcpyPeerAsync": &f.copyPeer,
		"cuStreamCreate": &f.streamCreate, "cuStreamDestroy_v2": &f.streamDestroy,
		"cuStreamSynchronize": &f.streamSync,
		"cuEventCreate":       &f.eventCreate, "cuEventDestroy_v2": &f.eventDestroy,
		"cuEventRecord": &f.eventRecord, "cuEventSynchronize": &f.eventSync,
		"cuEventQuery":     &f.eventQuery,
		"cuModuleLoadData": &f.moduleLoad, "cuModuleUnload": &f.moduleUnload,
		"cuModuleGetFunction": &f.moduleFunction, "cuFuncSetAttribute": &f.funcSetAttr,
		"cuLaunchKernel":          &f.launch,
		"cuStreamBeginCapture_v2": &f.beginCapture, "cuStreamEndCapture": &f.endCapture,
		"cuGraphInstantiateWithFlags": &f.instantiate, "cuGraphUpload": &f.upload,
		"cuGraphLaunch": &f.graphLaunch, "cuGraphDestroy": &f.graphDestroy,
		"cuGraphExecDestroy": &f.execDestroy,
	})

	if err != nil {
		return nil, err
	}

	// Drivers before CUDA 12.8 have only the older function. Both return a float.
	if f.elapsed, err = lib.Func("cuEventElapsedTime_v2"); err != nil {
		if f.elapsed, err = lib.Func("cuEventElapsedTime"); err != nil {
			return nil, err
		}
	}

	if err := l.call("cuInit", f.initialize, 0); err != nil {
		return nil, fmt.Errorf("the CUDA driver %s does not start: %w", lib.Path, err)
	}

	return l, nil
}

// Path returns the file of the driver's library.
func (l *Library) Path() string { return l.lib.Path }

// call calls a function and converts its result to an error.
//
//go:uintptrescapes
func (l *Library) call(name string, fn uintptr, args ...uintptr) error {
	if code := int(int32(dl.Call(fn, args...))); code != 0 {
		return l.failure(name, code)
	}
	return nil
}

func (l *Library) failure(call string, code int) *Error {
	e := NewError(call, code)
	var s unsafe.Pointer
	if dl.Call(l.fn.errorName, uintptr(code), uintptr(unsafe.Pointer(&s))) == 0 && s != nil {
		e.Name = dl.GoString(s)
	}

	s = nil
	if dl.Call(l.fn.errorString, uintptr(code), uintptr(unsafe.Pointer(&s))) == 0 && s != nil {
		e.Text = dl.GoString(s)
	}
	return e
}
