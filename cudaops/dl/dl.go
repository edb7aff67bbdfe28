// Package dl loads shared libraries at run time and calls their functions, so that CUDA is not needed to
// build. A library is described by its sonames, newest first. The error of a failed search contains all
// places that were searched.
package dl

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Spec describes a library and where it may be installed.
type Spec struct {
	// Name is the library's name in messages, for example "cuBLASLt".
	Name string

	// Sonames are tried in order, for example libcublasLt.so.13 before .12. In folders they may be glob
	// patterns, for copies in Python packages whose names contain a digest.
	Sonames []string

	// Packages are the folders of the library in a Python environment, relative to site-packages, for
	// example nvidia/cu13/lib.
	Packages []string

	// Siblings are glob patterns of libraries in the same folder that this library loads by soname later.
	// They are opened beforehand so that they can be found.
	Siblings []string

	// Global makes the symbols available to libraries opened later.
	Global bool

	// Hint is appended to the message of a failed search: what to install.
	Hint string
}

// Library is an open shared library. It is never closed, because closing a CUDA library while its threads
// run is not safe.
type Library struct {
	Name string
	// Path is the mapped file as reported by the kernel, or the soname if unknown.
	Path   string
	handle uintptr
}

// Attempt is a file that could not be opened.
type Attempt struct {
	Path string
	Err  string
}

// NotFoundError is returned if no candidate could be opened.
type NotFoundError struct {
	Name     string
	Sonames  []string
	Attempts []Attempt // existing files (or sonames passed to the loader) and their errors
	Dirs     []string  // searched folders
	Hint     string
}

func (e *NotFoundError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s not found: looked for %s", e.Name, strings.Join(e.Sonames, ", "))
	if len(e.Dirs) > 0 {
		fmt.Fprintf(&b, " in the loader's path, %s", strings.Join(e.Dirs, ", "))
	} else {
		b.WriteString(" in the loader's path")
	}

	for _, a := range e.Attempts {
		if filepath.IsAbs(a.Path) {
			fmt.Fprintf(&b, "; %s: %s", a.Path, a.Err)
		}
	}

	if e.Hint != "" {
		fmt.Fprintf(&b, "; %s", e.Hint)
	}

	return b.String()
}

// Brief returns the message without the places that were searched.
func (e *NotFoundError) Brief() string {
	text := fmt.Sprintf("%s not found (%s)", e.Name, strings.Join(e.Sonames, ", "))
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// IsNotFound reports whether err means that a library is missing, as opposed to one that exists but does
// not work.
func IsNotFound(err error) bool {
	var nf *NotFoundError
	return errors.As(err, &nf)
}

// Open opens the first candidate of spec. It searches AICPLAN_LIBRARY_PATH, LD_LIBRARY_PATH, the available
// Python environments (so that native rows use the same libraries as frameworks), the loader's default
// path, and the CUDA toolkits under /usr/local. The error is a *NotFoundError.
func Open(spec Spec) (*Library, error) {
	return open(spec, DefaultPlaces(), dlopen)
}

func dlopen(path string, global bool) (uintptr, error) {
	mode := purego.RTLD_NOW
	if global {
		mode |= purego.RTLD_GLOBAL
	} else {
		mode |= purego.RTLD_LOCAL
	}
	return purego.Dlopen(path, mode)
}

func open(spec Spec, places Places, dlopen func(string, bool) (uintptr, error)) (*Library, error) {
	nf := &NotFoundError{Name: spec.Name, Sonames: spec.Sonames, Hint: spec.Hint}
	try := func(soname, path string) *Library {
		h, err := dlopen(path, spec.Global)
		if err != nil {
			nf.Attempts = append(nf.Attempts, Attempt{Path: path, Err: err.Error()})
			return nil
		}

		lib := &Library{Name: spec.Name, Path: path, handle: h}
		if mapped := mappedPath(soname); mapped != "" {
			lib.Path = mapped
		}

		for _, pattern := range spec.Siblings {
			files, _ := filepath.Glob(filepath.Join(filepath.Dir(lib.Path), pattern))
			for _, f := range files {
				// Ignore errors, because the library may not need this one. If it does, it reports the
				// error itself.
				_, _ = dlopen(f, false)
			}
		}

		return lib
	}

	inDirs := func(dirs []string) *Library {
		nf.Dirs = append(nf.Dirs, dirs...)
		for _, dir := range dirs {
			for _, so := range spec.Sonames {
				files, _ := filepath.Glob(filepath.Join(dir, so))
				for _, path := range files {
					if lib := try(filepath.Base(path), path); lib != nil {
						return lib
					}
				}
			}
		}
		return nil
	}

	if lib := inDirs(places.First); lib != nil {
		return lib, nil
	}

	var pkg []string
	for _, site := range places.Site {
		for _, p := range spec.Packages {
			pkg = append(pkg, filepath.Join(site, p))
		}
	}

	if lib := inDirs(pkg); lib != nil {
		return lib, nil
	}

	for _, so := range spec.Sonames {
		if lib := try(so, so); lib != nil {
			return lib, nil
		}
	}

	if lib := inDirs(places.Last); lib != nil {
		return lib, nil
	}

	return nil, nf
}

// Symbol is a function of a library. Name is its name in messages.
type Symbol struct {
	Name string
	At   uintptr
}

// Symbol looks up a function. Its name in messages is without the suffix of a version, such as _v2.
func (l *Library) Symbol(name string) (Symbol, error) {
	at, err := purego.Dlsym(l.handle, name)
	if err != nil || at == 0 {
		return Symbol{}, fmt.Errorf("%s (%s) has no %s: the library is older than this program needs", l.Name, l.Path, name)
	}
	return Symbol{strings.TrimSuffix(name, "_v2"), at}, nil
}

// BindStruct looks up the functions that the fields of a struct are named after. The fields are of type Symbol.
func (l *Library) BindStruct(table any) error {
	fields := reflect.ValueOf(table).Elem()
	for i := range fields.NumField() {
		symbol, err := l.Symbol(fields.Type().Field(i).Name)
		if err != nil {
			return err
		}
		*(*Symbol)(fields.Field(i).Addr().UnsafePointer()) = symbol
	}
	return nil
}

// Call calls a C function whose parameters are integers or pointers. Pointers
// to Go memory may be given as uintptr(unsafe.Pointer(&x)) inside the argument
// list and are kept alive and in place for the duration of the call.
//
//go:uintptrescapes
func Call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}

// CallPointer calls a C function that returns a pointer to memory owned by C.
//
//go:uintptrescapes
func CallPointer(fn uintptr, args ...uintptr) unsafe.Pointer {
	r, _, _ := purego.SyscallN(fn, args...)
	// The word is an address outside of Go's heap. Reading it through a pointer to the word is a legal
	// conversion.
	return *(*unsafe.Pointer)(unsafe.Pointer(&r))
}

// GoString copies a C string.
func GoString(p unsafe.Pointer) string {
	if p == nil {
		return ""
	}

	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}
