// Package dl opens shared libraries at run time and calls into them, so that
// nothing of CUDA is needed to build. A library is described by its sonames,
// newest first; a failed search says every place that was looked at.
package dl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Spec says which library is wanted and where it may lie.
type Spec struct {
	// Name is how messages call the library, for example "cuBLASLt".
	Name string
	// Sonames are tried in order, for example libcublasLt.so.13 before .12.
	Sonames []string
	// Packages are the folders of the library inside a Python environment,
	// relative to site-packages, for example nvidia/cu13/lib.
	Packages []string
	// Siblings are patterns of libraries in the same folder that this one opens
	// by bare name later on; they are opened beforehand so that it finds them.
	Siblings []string
	// Global makes the symbols available to libraries that are opened later.
	Global bool
	// Hint ends the message of a failed search: what to install.
	Hint string
}

// Library is an open shared library. It stays open for the life of the
// process: closing a CUDA library while its threads run is not safe.
type Library struct {
	Name string
	// Path is the file that was mapped, as the kernel names it; the soname
	// when the system does not tell.
	Path   string
	Soname string
	handle uintptr
}

// Attempt is one place that was tried.
type Attempt struct {
	Path string
	Err  string
}

// NotFoundError says that no candidate could be opened.
type NotFoundError struct {
	Name     string
	Sonames  []string
	Attempts []Attempt // files that exist (or sonames given to the loader) and why they failed
	Dirs     []string  // folders that were looked into
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

// IsNotFound says whether err means that a library is missing, as opposed to
// one that is there and does not work.
func IsNotFound(err error) bool {
	var nf *NotFoundError
	return errors.As(err, &nf)
}

// Open opens the first candidate of spec: folders of AICPLAN_LIBRARY_PATH, then
// LD_LIBRARY_PATH, the Python environments at hand (so that native rows use the
// libraries that the frameworks use), the loader's own path and the CUDA
// toolkits under /usr/local. The error is a *NotFoundError.
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
		lib := &Library{Name: spec.Name, Soname: soname, Path: path, handle: h}
		if mapped := mappedPath(soname); mapped != "" {
			lib.Path = mapped
		}
		for _, pattern := range spec.Siblings {
			files, _ := filepath.Glob(filepath.Join(filepath.Dir(lib.Path), pattern))
			for _, f := range files {
				// One that does not open is one that the library may not need; it
				// says so itself when it does.
				_, _ = dlopen(f, false)
			}
		}
		return lib
	}
	inDirs := func(dirs []string) *Library {
		nf.Dirs = append(nf.Dirs, dirs...)
		for _, dir := range dirs {
			for _, so := range spec.Sonames {
				path := filepath.Join(dir, so)
				if _, err := os.Stat(path); err != nil {
					continue
				}
				if lib := try(so, path); lib != nil {
					return lib
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

// Func returns the address of a symbol; the error names library and symbol.
func (l *Library) Func(name string) (uintptr, error) {
	fn, err := purego.Dlsym(l.handle, name)
	if err != nil || fn == 0 {
		return 0, fmt.Errorf("%s (%s) has no %s: the library is older than this program needs", l.Name, l.Path, name)
	}
	return fn, nil
}

// Has says whether the library has a symbol.
func (l *Library) Has(name string) bool {
	fn, err := purego.Dlsym(l.handle, name)
	return err == nil && fn != 0
}

// Bind looks up symbols and stores their addresses; it fails on the first that
// is missing. The keys are symbol names.
func (l *Library) Bind(table map[string]*uintptr) error {
	for name, at := range table {
		fn, err := l.Func(name)
		if err != nil {
			return err
		}
		*at = fn
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

// CallPointer calls a C function that returns a pointer to memory that C owns.
//
//go:uintptrescapes
func CallPointer(fn uintptr, args ...uintptr) unsafe.Pointer {
	r, _, _ := purego.SyscallN(fn, args...)
	// The word is an address outside Go's heap: reading it through a pointer to
	// the word keeps the conversion legal.
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
