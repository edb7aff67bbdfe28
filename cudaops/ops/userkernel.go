package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/worker"
)

// KernelBinding describes a user's kernel: its source and its launch. A number may be the name of a case
// parameter, so that columns of a grid set it for each case.
type KernelBinding struct {
	// Source is the text of the kernel in CUDA C++. A plan may have file instead: a path below the plan's folder.
	Source string `json:"source"`
	// Name identifies the text in messages.
	Name string `json:"name"`
	// Entry is the name of the extern "C" __global__ function.
	Entry string `json:"entry"`
	// Options lists options of the compiler. {column} is replaced by the value of the case: `["-DHEADS={num_heads}"]`.
	Options []string `json:"options"`
	// Grid is the grid of a launch: one to three numbers or names of columns.
	Grid []Number `json:"grid"`
	// Block is the thread block of a launch: one to three numbers or names of columns.
	Block []Number `json:"block"`
	// Shared is the dynamic shared memory in bytes.
	Shared Number `json:"shared"`
	// Args (list of objects) lists the kernel's parameters in order.
	Args []KernelArg `json:"args"`
	// Bytes is the bytes that one launch moves, for rates and the least possible time.
	Bytes Number `json:"bytes"`
	// Flops is the operations of one launch.
	Flops Number `json:"flops"`
	// DType is the type whose tensor throughput bounds the kernel.
	DType DType `json:"dtype"`
}

// KernelArg is a buffer or a value.
type KernelArg struct {
	// Buffer is "in" (filled with random normals, rotating) or "out". A value has none.
	Buffer string `json:"buffer"`
	// Type is float32, bfloat16, float16, fp8 or int8 of a buffer; int32, uint32, int64, uint64, float32 or float64
	// of a value.
	Type string `json:"type"`
	// Elements is the number of elements of a buffer.
	Elements Number `json:"elements"`
	// Value is the value of an argument that is not a buffer.
	Value Number `json:"value"`
}

// Number is a number or the name of a case parameter.
type Number struct {
	value float64
	param string
	set   bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}

	switch v := v.(type) {
	case nil:
	case float64:
		*n = Number{value: v, set: true}
	case string:
		*n = Number{param: v, set: true}
	default:
		return fmt.Errorf("%s is neither a number nor the name of a parameter", b)
	}

	return nil
}

// values reads the numbers of a binding with the parameters of a case. It keeps the first error.
type values struct {
	params map[string]any
	err    error
}

func (v *values) fail(format string, args ...any) {
	if v.err == nil {
		v.err = fmt.Errorf(format, args...)
	}
}

// number returns a number, or def if it is not set.
func (v *values) number(n Number, what string, def float64) float64 {
	switch {
	case !n.set:
		return def
	case n.param == "":
		return n.value
	}

	p, ok := v.params[n.param]
	if !ok {
		v.fail("%s names the parameter %q, which the case does not have", what, n.param)
		return def
	}

	text, ok := p.(json.Number)
	f, err := text.Float64()
	if !ok || err != nil {
		v.fail("%s is the parameter %q, which is %v and not a number", what, n.param, p)
	}
	return f
}

func (v *values) whole(n Number, what string, def, least int64) int64 {
	f := v.number(n, what, float64(def))
	if f != math.Trunc(f) || f < float64(least) || f > 1<<53 {
		v.fail("%s is %v; it must be a whole number of at least %d", what, f, least)
		return least
	}
	return int64(f)
}

// launch is whole for 32-bit parameters of a launch. The driver would truncate a larger number and launch
// a different grid.
func (v *values) launch(n Number, what string, def, least int64) int {
	i := v.whole(n, what, def, least)
	if i > math.MaxInt32 {
		v.fail("%s is %d; a launch takes at most %d", what, i, math.MaxInt32)
	}
	return int(i)
}

// parseBinding decodes a binding and checks the parts that do not depend on a case.
func parseBinding(raw json.RawMessage) (*KernelBinding, error) {
	b := new(KernelBinding)
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	err := d.Decode(b)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("%s must not be a %s", wrong.Field, wrong.Value)
	}
	if err != nil {
		return nil, fmt.Errorf("the kernel's binding: %s", strings.TrimPrefix(err.Error(), "json: "))
	}

	if b.Name == "" {
		b.Name = "kernel.cu"
	}

	switch {
	case strings.TrimSpace(b.Source) == "":
		return nil, errors.New("the kernel's binding has no source: give the text, or file = \"kernel.cu\"")
	case b.Entry == "":
		return nil, errors.New("the kernel's binding has no entry: the name of its extern \"C\" __global__ function")
	case len(b.Grid) < 1 || len(b.Grid) > 3 || len(b.Block) < 1 || len(b.Block) > 3:
		return nil, errors.New("grid and block of the kernel's binding need one to three numbers each")
	case b.DType != "" && b.DType.Size() == 0:
		return nil, fmt.Errorf("dtype of the kernel's binding is %q; there are float32, bfloat16, float16, fp8 and int8",
			b.DType)
	}

	return b, nil
}

// CheckBinding returns a function that returns why the host would reject a case of a binding. It needs no device.
func CheckBinding(raw json.RawMessage) (func(worker.Case) error, error) {
	b, err := parseBinding(raw)
	if err != nil {
		return nil, err
	}

	return func(c worker.Case) error {
		p := worker.ParseParams(c)
		v := &values{params: p.Values, err: p.Err}
		b.launch(v)
		b.arguments(v)
		return v.err
	}, nil
}

var optionParam = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_]*\}`)

// compileOptions returns the compiler options for a case's parameters.
func (b *KernelBinding) compileOptions(v *values) []string {
	out := make([]string, len(b.Options))
	for i, o := range b.Options {
		out[i] = optionParam.ReplaceAllStringFunc(o, func(m string) string {
			name := m[1 : len(m)-1]
			if v.params[name] == nil {
				v.fail("option %q names the parameter %q, which the case does not have", o, name)
			}
			return fmt.Sprint(v.params[name])
		})
	}

	return out
}

// allowShared raises a kernel's limit of dynamic shared memory. It never lowers it, because other open cases
// may use the same kernel.
func (d *Device) allowShared(f cuda.Function, bytes int) error {
	const freely = 48 << 10
	if bytes <= max(freely, d.shared[f]) {
		return nil
	}

	if err := d.Lib.Driver.SetMaxDynamicShared(f, bytes); err != nil {
		return err
	}

	if d.shared == nil {
		d.shared = map[cuda.Function]int{}
	}

	d.shared[f] = bytes
	return nil
}

// userBuffer is a buffer argument with its address in each operand set.
type userBuffer struct {
	arg   int
	in    bool
	dtype DType
	bytes int64
	at    []cuda.Ptr
}

// Kernel prepares a user's kernel for a case.
func (d *Device) Kernel(b *KernelBinding, label string, params map[string]any) (*Case, error) {
	v := &values{params: params}
	l := b.launch(v)
	args, buffers, rotating := b.arguments(v)
	if v.err != nil {
		return nil, v.err
	}

	c := &Case{Label: label, DType: b.DType, Unsure: true, Columns: map[string]any{"kernel_source": b.Entry},
		Bytes: l.bytes, Flops: l.flops}
	k := l.Launch
	var err error
	if k.Func, err = d.compile(cuda.Program{Name: b.Name, Source: b.Source, Options: l.options}, b.Entry); err != nil {
		return nil, err
	}

	if err := d.allowShared(k.Func, k.SharedMemory); err != nil {
		return nil, unsupported(fmt.Sprintf("%d bytes of shared memory for %s", k.SharedMemory, b.Entry), "%v", err)
	}

	d.rotate(c, rotating)
	copies := 1
	if rotating > 0 {
		copies = c.Sets
	}

	least, err := d.userOperands(label, copies, buffers)
	if err != nil {
		return nil, err
	}

	if rotating > 0 {
		c.Columns["cache"] = d.cacheState(c.Sets, rotating, least)
	}

	c.Enqueue = func(i int, s cuda.Stream) error {
		one := k
		one.Args = append([]any(nil), args...)
		for _, u := range buffers {
			one.Args[u.arg] = u.at[i%len(u.at)]
		}

		return d.Lib.Driver.Launch(one, s)
	}

	return c, nil
}

// launch is a launch of a kernel without its function and arguments.
type launch struct {
	cuda.Launch
	options      []string // of the compiler
	bytes, flops float64
}

func (b *KernelBinding) launch(v *values) launch {
	l := launch{Launch: cuda.Launch{Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}}}
	for i, n := range b.Grid {
		l.Grid[i] = v.launch(n, "grid", 1, 1)
	}
	for i, n := range b.Block {
		l.Block[i] = v.launch(n, "block", 1, 1)
	}

	l.SharedMemory = v.launch(b.Shared, "shared", 0, 0)
	l.bytes, l.flops = v.number(b.Bytes, "bytes", 0), v.number(b.Flops, "flops", 0)
	l.options = b.compileOptions(v)
	return l
}

// arguments returns the arguments and the buffers of a kernel. rotating is the total size of the inputs in bytes.
func (b *KernelBinding) arguments(v *values) (args []any, buffers []*userBuffer, rotating float64) {
	args = make([]any, len(b.Args))
	for i, a := range b.Args {
		what := fmt.Sprintf("argument %d of %s", i, b.Entry)
		switch a.Buffer {
		case "in", "out":
			u := &userBuffer{arg: i, in: a.Buffer == "in", dtype: DType(a.Type)}
			if u.dtype.Size() == 0 {
				v.fail("%s has elements of type %q; buffers have float32, bfloat16, float16, fp8 or int8", what, a.Type)
			}

			u.bytes = v.whole(a.Elements, what+": elements", 0, 1) * u.dtype.Size()
			if u.in {
				rotating += float64(u.bytes)
			}
			buffers = append(buffers, u)
		case "":
			if !a.Value.set {
				v.fail("%s has neither buffer nor value", what)
			}

			value, err := kernelValue(a.Type, v.number(a.Value, what, 0))
			if err != nil {
				v.fail("%s: %w", what, err)
			}
			args[i] = value
		default:
			v.fail("%s is a buffer of kind %q; there are \"in\" and \"out\"", what, a.Buffer)
		}
	}

	return args, buffers, rotating
}

func kernelValue(typ string, v float64) (any, error) {
	whole := v == math.Trunc(v)
	switch {
	case typ == "float32":
		return float32(v), nil
	case typ == "float64":
		return v, nil
	case typ == "int32" && whole && v >= math.MinInt32 && v <= math.MaxInt32:
		return int32(v), nil
	case typ == "uint32" && whole && v >= 0 && v <= math.MaxUint32:
		return uint32(v), nil
	case typ == "int64" && whole && math.Abs(v) <= 1<<53:
		return int64(v), nil
	case typ == "uint64" && whole && v >= 0 && v <= 1<<53:
		return uint64(v), nil
	}

	return nil, fmt.Errorf("%v is not a value of type %q (int32, uint32, int64, uint64, float32, float64)", v, typ)
}

// userOperands allocates every buffer: inputs once per operand set, outputs once. It returns the smallest
// pool of the inputs, or nil without inputs.
func (d *Device) userOperands(label string, sets int, buffers []*userBuffer) (least *Pool, err error) {
	out := d.Arena.Out.cursor(label)
	cursors := map[*Pool]*cursor{} // types can share a pool
	for set := range sets {
		for _, u := range buffers {
			cur := out
			switch {
			case !u.in && set > 0:
				continue
			case u.in:
				pool, err := d.Arena.Operands(u.dtype)
				if err != nil {
					return nil, err
				}

				if least == nil || pool.bytes < least.bytes {
					least = pool
				}

				if cursors[pool] == nil {
					cursors[pool] = pool.cursor(label)
				}
				cur = cursors[pool]
			}

			u.at = append(u.at, cur.take(fmt.Sprintf("argument %d", u.arg), u.bytes))
			if cur.err != nil {
				return nil, cur.err
			}
		}
	}

	return least, nil
}
