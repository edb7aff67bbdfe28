package runtimes

import (
	"cmp"
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

	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

// Environment describes where and with which code a worker measures. The state folder has the one that was
// seen last for each runtime, and plans assume it.
type Environment struct {
	Framework string            `json:"framework"`
	Version   string            `json:"version"`
	Device    string            `json:"device"`
	Env       map[string]string `json:"env,omitempty"`
	// Variables are the environment variables of this process that workers inherit and that may change
	// kernels; see VariablePrefixes.
	Variables map[string]string `json:"variables,omitempty"`
	// Code maps CodeKey to the code that an op was last measured with.
	Code map[string]*Code `json:"code,omitempty"`
	// Identity identifies the runtime block; see identity. An environment with another identity is
	// ignored.
	Identity string `json:"identity"`
	// Interpreter is the block's python attribute. If the interpreter cannot be queried, an environment
	// with another interpreter is ignored.
	Interpreter string `json:"interpreter,omitempty"`
	// Asked is what the interpreter reported at that time. What it reports now is compared with it, because its
	// workers may report something else.
	Asked *Installed `json:"asked,omitempty"`
	// SeenAt is the time of the report in RFC 3339.
	SeenAt string `json:"seen_at"`
	// Workers is the number of workers.
	Workers int `json:"workers,omitempty"`
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
	e.Variables = inherited(rt)
	return e
}

// identity returns the attributes that must not change for an environment to remain valid. The
// interpreter is not included, because its path may differ between nodes. Expect compares its version,
// or its path if the version is unknown.
func identity(rt *stage.Runtime) string {
	return strings.Join(append([]string{rt.Kind, rt.Package, rt.Image, rt.ImageDigest}, rt.Launcher...), "|")
}

// String returns the framework, its version and the device for messages.
func (e *Environment) String() string {
	return strings.TrimSpace(e.Framework+" "+e.Version) + " on " + e.Device
}

// Expect returns the environment of a runtime without starting a worker, from this run, from a quick
// probe, or from the last time it was seen. In the last case assumed describes the environment;
// otherwise it is "". Expect returns nil if nothing is known or if the known version does not satisfy
// the runtime's requires; see Unknown.
func (p *Pools) Expect(ctx context.Context, store *checkpoint.Store,
	rt *stage.Runtime) (env *Environment, assumed string) {
	if e := p.seenNow(rt); e != nil {
		return e, ""
	}

	kind := p.Kind(rt.Kind)
	if len(rt.Launcher) == 0 && kind.Probe != nil {
		if e := kind.Probe(ctx, rt); e != nil {
			return e, ""
		}
	}

	known := lastSeen(store, rt)
	if known == nil {
		return nil, ""
	}

	if rt.Framework != "" {
		known.Framework = rt.Framework
	}
	if kind.UsesGPUs {
		known.Variables = inherited(rt)
	}

	day, _, _ := strings.Cut(known.SeenAt, "T")
	assumed = fmt.Sprintf("%s, as seen on %s", known, day)

	if kind.Interpreted {
		if known.Interpreter == rt.Python {
			ctx = Running(ctx) // the user has run it here before
		}

		now := p.installed(ctx, rt, packagesOf(known.Code))
		if now.Package == "" && (rt.Package != "" || now.Python == "") {
			if known.Interpreter != rt.Python {
				return nil, ""
			}
		} else if before := known.Version; known.update(rt, now) && known.Version != before {
			assumed = fmt.Sprintf("%s %s is installed; its device as seen on %s", cmp.Or(rt.Package, "Python"),
				known.Version, day)
		}
	}

	if binds(rt) && Satisfies(known.Version, rt.Requires) != nil {
		return nil, ""
	}
	return known, assumed + p.elsewhere(rt, known)
}

// update replaces the versions that the interpreter reports differently than when the environment was seen.
// It reports whether there are any.
func (e *Environment) update(rt *stage.Runtime, now Installed) (changed bool) {
	asked := e.Asked
	if asked == nil {
		asked = &Installed{}
	}
	replace := func(known *string, asked, now string) {
		if now != "" && now != asked && now != *known {
			*known, changed = now, true
		}
	}

	if rt.Package != "" {
		replace(&e.Version, asked.Package, now.Package)
	} else {
		replace(&e.Version, asked.Python, now.Python)
	}
	// A server is located by an interpreter but does not report one.
	if python, reported := e.Env["python"]; reported {
		replace(&python, asked.Python, now.Python)
		e.Env["python"] = python
	}
	for _, c := range e.Code {
		for name, version := range c.Packages {
			replace(&version, asked.Packages[name], now.Packages[name])
			c.Packages[name] = version
		}
	}
	return changed
}

// installed returns the versions that the runtime's interpreter reports, each "" if it cannot be determined
// here. A package that the runtime rejects counts as unknown, because it runs in another place then.
func (p *Pools) installed(ctx context.Context, rt *stage.Runtime, packages []string) Installed {
	if len(rt.Launcher) > 0 || rt.Package == "" && p.Kind(rt.Kind).Entry == nil { // a server has no version then
		return Installed{}
	}
	now := p.interpreter(ctx, rt, packages)
	if now.Package == pyhost.UnknownVersion || Satisfies(now.Package, rt.Requires) != nil {
		now.Package = ""
	}
	return now
}

// Met records the environment that the workers of a runtime report if it differs from the expected one
// or none was expected. Expect returns it from then on.
func (p *Pools) Met(rt *stage.Runtime, e *Environment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.met[rt.Address] = e
}

// seenNow returns a copy of the environment that Met recorded for a runtime, or nil.
func (p *Pools) seenNow(rt *stage.Runtime) *Environment {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.met[rt.Address] == nil {
		return nil
	}
	e := *p.met[rt.Address]
	return &e
}

// lastSeen returns the environment in which a runtime was last seen, or nil if there is none with the same
// identity.
func lastSeen(store *checkpoint.Store, rt *stage.Runtime) *Environment {
	known, err := Known(store, rt.Address)
	if err != nil || known == nil || known.Identity != identity(rt) {
		return nil
	}
	return known
}

// Unknown returns why no environment of a runtime is assumed. seen is a remark on the interpreter that the runtime was
// seen with, if the plan names another one, and "" otherwise.
func Unknown(store *checkpoint.Store, rt *stage.Runtime) (why, seen string) {
	why = "first run with " + rt.Address + " as it is now"
	known := lastSeen(store, rt)
	if known == nil {
		return why, ""
	}

	if binds(rt) && Satisfies(known.Version, rt.Requires) != nil {
		why = fmt.Sprintf("%s requires %s, and %s was seen last", rt.Address, rt.Requires, known.Version)
	}
	if known.Interpreter != "" && known.Interpreter != rt.Python {
		seen = fmt.Sprintf(
			"; the state folder has seen it with python = %q, and a plan that names the same finds its rows even if that is "+
				"not installed", known.Interpreter)
	}
	return why, seen
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

	devices, err := p.chosen(rt)
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

// Ask asks the interpreter for what Remember stores, so that measurements do not wait for it later.
func (p *Pools) Ask(store *checkpoint.Store, rt *stage.Runtime, e Environment) {
	if p.interpreted(rt) {
		p.installed(Running(p.ctx), rt, packagesOf(codeWith(lastSeen(store, rt), e)))
	}
}

func (p *Pools) interpreted(rt *stage.Runtime) bool {
	return p.Kind(rt.Kind).Interpreted && len(rt.Launcher) == 0
}

// codeWith returns the code of e, and of other ops as known.
func codeWith(known *Environment, e Environment) map[string]*Code {
	code := map[string]*Code{}
	if known != nil {
		maps.Copy(code, known.Code)
	}
	maps.Copy(code, e.Code)
	return code
}

// Remember stores the environment of a runtime for later plans, with what the interpreter reports now. The
// state folder must exist. Known code of the same identity is kept.
func (p *Pools) Remember(store *checkpoint.Store, rt *stage.Runtime, e Environment) error {
	known := lastSeen(store, rt)
	code := codeWith(known, e)
	if p.interpreted(rt) {
		now := p.installed(Running(p.ctx), rt, packagesOf(code))
		if version := cmp.Or(now.Package, now.Python); version != "" && version != e.Version {
			// The interpreter may have been replaced since the plan was made.
			p.mu.Lock()
			clear(p.versions)
			p.mu.Unlock()
			now = p.installed(Running(p.ctx), rt, packagesOf(code))
		}
		if known != nil {
			known.update(rt, now) // code of ops that this run did not measure
		}
		e.Asked = &now
	}
	e.Code = code

	return writeSeen(store, rt.Address, e)
}

// writeSeen writes the record of the environment that a runtime was seen in last.
func writeSeen(store *checkpoint.Store, address string, e Environment) error {
	raw, err := json.MarshalIndent(e, "", "  ")
	path := knownPath(store, address)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		_, err = fileutil.WriteFile(path, append(raw, '\n'))
	}
	if err != nil {
		return fmt.Errorf("environment of %s: %w", address, err)
	}
	return nil
}

func knownPath(store *checkpoint.Store, address string) string {
	return filepath.Join(store.Dir, "runtimes", ownName(address, "/\\\x00")+".json")
}

// ownName returns a file name for name without the characters in unfit. It is unique even if the file system ignores
// case, and has at most 180 bytes.
func ownName(name, unfit string) string {
	out := strings.Map(func(r rune) rune {
		if strings.ContainsRune(unfit, r) {
			return '_'
		}
		return r
	}, name)
	const most = 180
	if out == name && strings.ToLower(name) == name && len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(out[:min(len(out), most-20)], "") + "~" + shortSum([]byte(name))
}

// VariablePrefixes are the prefixes of environment variables that workers inherit from this process and that
// select or change kernels. Their values are part of the key of rows, except for those in variablesBeside.
var VariablePrefixes = strings.Fields(`VLLM_ SGLANG_ SGL_ TRTLLM_ TLLM_ TORCH_ TORCHINDUCTOR_ PYTORCH_ TRITON_
	FLASHINFER_ CUBLAS_ CUBLASLT_ CUDNN_ CUDA_ NVTE_ NCCL_ NVSHMEM_ UCX_`)

// variablesBeside are the ends of names of variables that locate something, select devices or configure logs.
// They do not change kernels.
var variablesBeside = strings.Fields(`_DIR _PATH _HOME _ROOT _LOGS _LOG_LEVEL _LOGGING_LEVEL _DEBUG _DEBUG_SUBSYS
	_DEBUG_FILE _VISIBLE_DEVICES _DEVICE_ORDER _HOSTID _IFNAME _COMM_ID _TOKEN _KEY _PORT _HOST_IP CUDA_VERSION
	CUDNN_VERSION NCCL_VERSION`)

// inherited returns the variables that workers of a runtime inherit and that may change kernels. Those that the
// runtime sets itself are left out, because its block is in the key.
func inherited(rt *stage.Runtime) map[string]string {
	own := environment(rt)
	var out map[string]string
	for _, text := range os.Environ() {
		name, value, _ := strings.Cut(text, "=")
		if _, set := own[name]; set || value == "" || !changesKernels(name) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out
}

func changesKernels(name string) bool {
	return !slices.ContainsFunc(variablesBeside, func(end string) bool { return strings.HasSuffix(name, end) }) &&
		slices.ContainsFunc(VariablePrefixes, func(start string) bool { return strings.HasPrefix(name, start) })
}
