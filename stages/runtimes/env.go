package runtimes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/atomic"
)

// Environment is what a worker said about where it measures.
type Environment struct {
	Framework string            `json:"framework"`
	Version   string            `json:"version"`
	Device    string            `json:"device"`
	Env       map[string]string `json:"env,omitempty"`
	// Identity names the kind of runtime that said it, see identity: a block that
	// has become another runtime knows nothing.
	Identity string `json:"identity"`
	// Interpreter is the block's python as it was written: where the interpreter
	// cannot be asked, another one knows nothing.
	Interpreter string `json:"interpreter,omitempty"`
	// Asked is what the interpreter said of itself, in the words of asAsked,
	// where the workers that it ran said something else; "" where both agree. An
	// interpreter that says it again runs the same workers.
	Asked string `json:"asked,omitempty"`
	// Sources are the files that ops were measured with, by SourceKey: plans that
	// are made where the files are not assume them.
	Sources map[string]string `json:"sources,omitempty"`
	// SeenAt is when, RFC 3339.
	SeenAt string `json:"seen_at"`
	// Workers is how many there were.
	Workers int `json:"workers,omitempty"`
}

// OnGPU says whether the workers measured on a GPU: they named its driver or its
// architecture, or the device is called as GPUs are. Of rows from files only the
// name is known.
func (e *Environment) OnGPU() bool {
	return e.Env["driver"] != "" || e.Env["sm"] != "" || strings.HasPrefix(e.Device, "NVIDIA ")
}

// EnvironmentOf takes a hello; the runtime block's label wins.
func EnvironmentOf(rt *stage.Runtime, h *worker.Hello) Environment {
	e := Environment{Framework: rt.Framework, Version: h.Version, Device: h.Device, Env: h.Env, Identity: identity(rt), Interpreter: rt.Python}
	if e.Framework == "" {
		e.Framework = h.Framework
	}
	if e.Framework == "" {
		e.Framework = rt.Package
	}
	return e
}

// identity is what must not change for an environment to stay true. The
// interpreter is not among it, since another node may keep it elsewhere: it is
// asked for its versions, or must be written as it was.
func identity(rt *stage.Runtime) string {
	return strings.Join(append([]string{rt.Kind, rt.Package, rt.Image, rt.ImageDigest}, rt.Launcher...), "|")
}

// Field returns one field by name: framework, version, device, or one that the
// worker reported.
func (e *Environment) Field(name string) string {
	switch name {
	case "framework":
		return e.Framework
	case "version":
		return e.Version
	case "device":
		return e.Device
	}
	return e.Env[name]
}

// Expect works out the environment of a runtime without starting a worker:
// exactly where that is quick, else from the last time it was seen. Assumed
// says so in a few words and is empty for an exact answer. It returns nil where
// nothing is known, and where what is known does not meet the runtime's
// requires: rows of another version answer nothing then; Refused says so.
func (p *Pools) Expect(ctx context.Context, store *checkpoint.Store, rt *stage.Runtime) (env *Environment, assumed string) {
	if e := p.metBy(rt); e != nil {
		return e, ""
	}
	if k := p.Kind(rt.Kind); k != nil && k.Probe != nil && len(rt.Launcher) == 0 {
		if e := k.Probe(ctx, rt); e != nil {
			return e, ""
		}
	}
	known, err := Known(store, rt.Address)
	if err != nil || known == nil || known.Identity != identity(rt) {
		return nil, ""
	}
	if rt.Framework != "" {
		known.Framework = rt.Framework
	}
	day, _, _ := strings.Cut(known.SeenAt, "T")
	assumed = fmt.Sprintf("%s on %s, as seen on %s", strings.TrimSpace(known.Framework+" "+known.Version), known.Device, day)
	if k := p.Kind(rt.Kind); k != nil && k.Interpreter != nil {
		if known.Interpreter == rt.Python {
			ctx = Running(ctx) // the user has run it here before
		}
		pkg, python := p.interpreterSays(ctx, rt)
		told := pkg != "" || rt.Package == "" && python != ""
		if !told && known.Interpreter != rt.Python {
			return nil, ""
		}
		e := *known
		switch {
		case known.Asked != "" && known.Asked == asAsked(pkg, python):
			told = false // its workers say what is known
		case pkg != "" && pkg != known.Version:
			e.Version = pkg
			assumed = fmt.Sprintf("%s %s is installed; its device as seen on %s", rt.Package, pkg, day)
		case rt.Package == "" && python != "" && python != known.Version:
			e.Version = python
			assumed = fmt.Sprintf("Python %s is here; its device as seen on %s", python, day)
		}
		// A server is found by an interpreter, and reports none.
		if _, reported := known.Env["python"]; python != "" && told && reported {
			e.Env = maps.Clone(e.Env)
			if e.Env == nil {
				e.Env = map[string]string{}
			}
			e.Env["python"] = python
		}
		known = &e
	}
	if binds(rt) && Satisfies(known.Version, rt.Requires) != nil {
		return nil, ""
	}
	return known, assumed + p.elsewhere(rt, known)
}

// Refused says why what is known of a runtime does not meet its requires; ""
// where it does, and where nothing is known.
func Refused(store *checkpoint.Store, rt *stage.Runtime) string {
	known, err := Known(store, rt.Address)
	if err != nil || known == nil || known.Identity != identity(rt) || !binds(rt) || Satisfies(known.Version, rt.Requires) == nil {
		return ""
	}
	return fmt.Sprintf("%s requires %s, and %s was seen last", rt.Address, rt.Requires, known.Version)
}

// SeenWith is the interpreter with which a runtime was seen last, where it is another
// one than the plan names now; "" else.
func SeenWith(store *checkpoint.Store, rt *stage.Runtime) string {
	known, err := Known(store, rt.Address)
	if err != nil || known == nil || known.Identity != identity(rt) || known.Interpreter == rt.Python {
		return ""
	}
	return known.Interpreter
}

// binds says whether requires is about the version that a runtime reports: its
// package's.
func binds(rt *stage.Runtime) bool { return rt.Package != "" && rt.Requires != "" }

// elsewhere says in what this machine's GPUs differ from those on which a
// runtime was seen: their kind, and the driver. It is empty where they do not,
// and where no GPU is: plans are made on laptops.
func (p *Pools) elsewhere(rt *stage.Runtime, seen *Environment) string {
	if k := p.Kind(rt.Kind); k == nil || k.OnGPUs == nil || len(rt.Launcher) > 0 || !k.OnGPUs(rt) {
		return ""
	}
	devices, err := chosen(rt, p.Devices)
	if err != nil || len(devices) == 0 {
		return "" // the run says what is wrong
	}
	var names []string
	for _, d := range devices {
		if d.Name != "" && !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	if len(names) > 0 && !slices.Contains(names, seen.Device) {
		return "; this machine has " + strings.Join(names, " and ")
	}
	if now, then := p.Driver(), seen.Env["driver"]; now != "" && then != "" && now != then {
		return fmt.Sprintf("; this machine has the driver %s, then it was %s", now, then)
	}
	return ""
}

// unknownVersion stands for a package whose version only its worker can tell.
const unknownVersion = "?"

// probeTimeout bounds what a plan waits for an interpreter.
const probeTimeout = 30 * time.Second

// packageVersion is the installed version of the runtime's package; "" where
// there is none or nothing is asked here.
func (p *Pools) packageVersion(ctx context.Context, rt *stage.Runtime) string {
	k := p.Kind(rt.Kind)
	if k == nil || k.PackageVersion == nil || rt.Package == "" || len(rt.Launcher) > 0 {
		return ""
	}
	return k.PackageVersion(ctx, p, rt)
}

// Known returns the environment in which a runtime was seen last, or nil.
func Known(store *checkpoint.Store, address string) (*Environment, error) {
	raw, err := os.ReadFile(knownPath(store, address))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("environment of %s: %w", address, err)
	}
	e := new(Environment)
	if err := json.Unmarshal(raw, e); err != nil {
		return nil, fmt.Errorf("environment of %s: %w", address, err)
	}
	return e, nil
}

// Remember keeps the environment of a runtime for later plans. The state
// folder must be there.
func Remember(store *checkpoint.Store, address string, e Environment) error {
	if store.ReadOnly() {
		return nil
	}
	raw, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fmt.Errorf("environment of %s: %w", address, err)
	}
	path := knownPath(store, address)
	if known, err := Known(store, address); err == nil && known != nil && known.Identity == e.Identity {
		sources := maps.Clone(known.Sources)
		if sources == nil {
			sources = map[string]string{}
		}
		maps.Copy(sources, e.Sources)
		if e.Sources = sources; len(sources) == 0 {
			e.Sources = nil
		}
		if raw, err = json.MarshalIndent(e, "", "  "); err != nil {
			return fmt.Errorf("environment of %s: %w", address, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("environment of %s: %w", address, err)
	}
	if _, err := atomic.WriteFile(path, append(raw, '\n')); err != nil {
		return fmt.Errorf("environment of %s: %w", address, err)
	}
	return nil
}

// RememberSource keeps which code answered for an op last, where the runtime has
// been seen: plans that are made where its files are not assume it.
func RememberSource(store *checkpoint.Store, address, key, source string) error {
	known, err := Known(store, address)
	if err != nil || known == nil || known.Sources[key] == source {
		return err
	}
	known.Sources = map[string]string{key: source}
	return Remember(store, address, *known)
}

func knownPath(store *checkpoint.Store, address string) string {
	return filepath.Join(store.Dir(), "runtimes", ownName(address, "/\\\x00")+".json")
}

// without puts underscores in the place of characters.
func without(name, unfit string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(unfit, r) {
			return '_'
		}
		return r
	}, name)
}

// ownName makes a name fit for a file, also one that does not tell letter cases
// apart, and for no other name the same.
func ownName(name, unfit string) string {
	out := without(name, unfit)
	if out != name || strings.ToLower(name) != name {
		out = shortName(out) + "~" + shortSum([]byte(name))
	}
	return shortName(out)
}

// decodePlain decodes JSON without losing digits of integers.
func decodePlain(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return v, nil
}

// shortName is a name that file systems take with an ending: a long one keeps
// its head and ends in a digest.
func shortName(name string) string {
	const most = 180
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most-20], "") + "~" + shortSum([]byte(name))
}

// SourceKey names an op of a runtime in Environment.Sources.
func SourceKey(rt *stage.Runtime, op string, bind any) string {
	raw, err := json.Marshal([]any{bind, rt.Path, rt.CollectorRoot})
	if err != nil {
		return op
	}
	return op + " " + shortSum(raw)
}
