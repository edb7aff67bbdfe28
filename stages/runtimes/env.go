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
	"aicplan/sink/base/fileutil"
)

// Environment describes where a worker measures.
type Environment struct {
	Framework string            `json:"framework"`
	Version   string            `json:"version"`
	Device    string            `json:"device"`
	Env       map[string]string `json:"env,omitempty"`
	// Identity identifies the runtime block; see identity. An environment with another identity is
	// ignored.
	Identity string `json:"identity"`
	// Interpreter is the block's python attribute. If the interpreter cannot be queried, an environment
	// with another interpreter is ignored.
	Interpreter string `json:"interpreter,omitempty"`
	// Asked is the interpreter's own report in the format of asAsked if it differed from that of its
	// workers, and "" otherwise. As long as the interpreter reports the same, its workers do too.
	Asked string `json:"asked,omitempty"`
	// Sources maps SourceKey to the digest of the source files that the op was measured with. Plans use
	// it if the files are not available.
	Sources map[string]string `json:"sources,omitempty"`
	// SeenAt is the time of the report in RFC 3339.
	SeenAt string `json:"seen_at"`
	// Workers is the number of workers.
	Workers int `json:"workers,omitempty"`
}

// OnGPU reports whether the workers measured on a GPU. They reported its driver or architecture, or the
// device name starts with "NVIDIA ". For imported rows, only the name is known.
func (e *Environment) OnGPU() bool {
	return e.Env["driver"] != "" || e.Env["sm"] != "" || strings.HasPrefix(e.Device, "NVIDIA ")
}

// EnvironmentOf returns the environment of a hello. The framework of the runtime block takes precedence.
func EnvironmentOf(rt *stage.Runtime, h *worker.Hello) Environment {
	e := Environment{Framework: rt.Framework, Version: h.Version, Device: h.Device, Env: h.Env,
		Identity: identity(rt), Interpreter: rt.Python}
	if e.Framework == "" {
		e.Framework = h.Framework
	}
	if e.Framework == "" {
		e.Framework = rt.Package
	}
	return e
}

// identity returns the attributes that must not change for an environment to remain valid. The
// interpreter is not included, because its path may differ between nodes. Expect compares its version,
// or its path if the version is unknown.
func identity(rt *stage.Runtime) string {
	return strings.Join(append([]string{rt.Kind, rt.Package, rt.Image, rt.ImageDigest}, rt.Launcher...), "|")
}

// Field returns a field by name: framework, version, device, or one that the worker reported.
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

// Expect returns the environment of a runtime without starting a worker, from this run, from a quick
// probe, or from the last time it was seen. In the last case assumed describes the environment;
// otherwise it is "". Expect returns nil if nothing is known or if the known version does not satisfy
// the runtime's requires; see Refused.
func (p *Pools) Expect(ctx context.Context, store *checkpoint.Store,
	rt *stage.Runtime) (env *Environment, assumed string) {
	if e := p.metBy(rt); e != nil {
		return e, ""
	}

	kind := p.Kind(rt.Kind)
	if len(rt.Launcher) == 0 {
		if e := kind.Probe(ctx, rt); e != nil {
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
	assumed = fmt.Sprintf("%s on %s, as seen on %s", strings.TrimSpace(known.Framework+" "+known.Version),
		known.Device, day)

	if kind.About().Interpreted {
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
			told = false // the workers' version is already known
		case pkg != "" && pkg != known.Version:
			e.Version = pkg
			assumed = fmt.Sprintf("%s %s is installed; its device as seen on %s", rt.Package, pkg, day)
		case rt.Package == "" && python != "" && python != known.Version:
			e.Version = python
			assumed = fmt.Sprintf("Python %s is here; its device as seen on %s", python, day)
		}

		// A server is located by an interpreter but does not report one.
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

// Refused returns why the known version of a runtime does not satisfy its requires. It returns "" if it
// does or if nothing is known.
func Refused(store *checkpoint.Store, rt *stage.Runtime) string {
	known, err := Known(store, rt.Address)
	if err != nil || known == nil || known.Identity != identity(rt) || !binds(rt) ||
		Satisfies(known.Version, rt.Requires) == nil {
		return ""
	}
	return fmt.Sprintf("%s requires %s, and %s was seen last", rt.Address, rt.Requires, known.Version)
}

// SeenWith returns the interpreter with which a runtime was seen last if the plan now names another one,
// and "" otherwise.
func SeenWith(store *checkpoint.Store, rt *stage.Runtime) string {
	known, err := Known(store, rt.Address)
	if err != nil || known == nil || known.Identity != identity(rt) || known.Interpreter == rt.Python {
		return ""
	}
	return known.Interpreter
}

// binds reports whether requires applies to the version that the runtime reports, which is the version
// of its package.
func binds(rt *stage.Runtime) bool { return rt.Package != "" && rt.Requires != "" }

// elsewhere describes how this machine's GPUs or driver differ from those on which a runtime was seen.
// It returns "" if they do not differ or if there is no GPU, as on a laptop.
func (p *Pools) elsewhere(rt *stage.Runtime, seen *Environment) string {
	if len(rt.Launcher) > 0 || !p.Kind(rt.Kind).OnGPUs(rt) {
		return ""
	}

	devices, err := chosen(rt, p.Devices)
	if err != nil || len(devices) == 0 {
		return "" // the run reports the error
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

// unknownVersion is the version of a package that only its worker can report.
const unknownVersion = "?"

// probeTimeout is how long a plan waits for an interpreter.
const probeTimeout = 30 * time.Second

// packageVersion returns the installed version of the runtime's package, or "" if it is not installed or
// cannot be determined here.
func (p *Pools) packageVersion(ctx context.Context, rt *stage.Runtime) string {
	if rt.Package == "" || len(rt.Launcher) > 0 {
		return ""
	}
	return p.Kind(rt.Kind).Installed(ctx, p, rt).Package
}

// Known returns the environment in which a runtime was last seen, or nil.
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

// Remember stores the environment of a runtime for later plans. The state folder must exist. Known
// sources of the same identity are kept.
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
	if _, err := fileutil.WriteFile(path, append(raw, '\n')); err != nil {
		return fmt.Errorf("environment of %s: %w", address, err)
	}

	return nil
}

// RememberSource stores the source that an op was last measured with, if the runtime has been seen.
// Plans use it if the files are not available.
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

// without replaces the characters in unfit by underscores.
func without(name, unfit string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(unfit, r) {
			return '_'
		}
		return r
	}, name)
}

// ownName returns a file name for name that is unique even if the file system ignores case.
func ownName(name, unfit string) string {
	out := without(name, unfit)
	if out != name || strings.ToLower(name) != name {
		out = shortName(out) + "~" + shortSum([]byte(name))
	}
	return shortName(out)
}

// decodePlain decodes JSON and keeps all digits of numbers.
func decodePlain(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return v, nil
}

// shortName returns a name of at most 180 bytes. A longer name is cut and ends in a digest.
func shortName(name string) string {
	const most = 180
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most-20], "") + "~" + shortSum([]byte(name))
}

// SourceKey returns the key of an op in Environment.Sources.
func SourceKey(rt *stage.Runtime, op string, bind any) string {
	raw, err := json.Marshal([]any{bind, rt.Path, rt.CollectorRoot})
	if err != nil {
		return op
	}
	return op + " " + shortSum(raw)
}
