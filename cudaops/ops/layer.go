package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/worker"
)

// OpLayer is a chain of products that is replayed continuously. The rows of its parts must add up
// to its row.
const OpLayer = "layer"

// SettleLayer is how long a layer runs at the sustained point, in seconds. The last half is
// timed.
const SettleLayer = 2

// Layer is the sequence of products of one layer of a model, with M rows each.
type Layer struct {
	Type string `param:"gemm_dtype" words:"bfloat16 float16 fp8 fp8_block int8"`
	M    int64  `param:"m"`
	// Shapes has n and k of every product, such as "10240x5120 5120x8192".
	Shapes string `param:"shapes"`
}

// Part contains the key columns of a row that the composition check adds up.
type Part map[string]any

// parseSizes parses n and k of products, such as "10240x5120 5120x8192".
func parseSizes(text string) ([][2]int64, error) {
	var out [][2]int64
	for _, word := range strings.Fields(text) {
		n, k, ok := strings.Cut(word, "x")
		a, errN := strconv.ParseInt(n, 10, 64)
		b, errK := strconv.ParseInt(k, 10, 64)
		if !ok || errN != nil || errK != nil || a < 1 || b < 1 {
			return nil, fmt.Errorf("%q is not a product; write n and k as 10240x5120, with spaces between products",
				word)
		}

		out = append(out, [2]int64{a, b})
	}

	if len(out) == 0 {
		return nil, errors.New(`shapes is empty; write n and k of every product, such as "10240x5120 5120x8192"`)
	}

	return out, nil
}

// chains reports whether a product's output can be the activations of the next one: it has the
// same type and enough elements, and both outputs fit into the pool without overlap.
func chains(p, next cuda.MatmulProblem, pool int64) bool {
	_, _, output := p.Extents()
	_, activations, nextOutput := next.Extents()
	return p.D == next.B && activations <= output && (output+2*nextOutput)*p.D.Size() <= pool
}

// prepare prepares the chain. Every product has the first algorithm of the heuristic and separate
// weights, which rotate together. If possible, a product reads the output of the previous one,
// because activations are in the cache when a model reads them, and separate operands would have
// been evicted by the weights. The first product always reads the same activations.
func (l Layer) prepare(d *Device) (*Case, error) {
	sizes, err := parseSizes(l.Shapes)
	if err != nil {
		return nil, worker.Failed(worker.ClassCollectorBug, "parameter \"shapes\": %v", err)
	}

	lt, err := d.lt()
	if err != nil {
		return nil, err
	}

	c := &Case{Label: fmt.Sprintf("layer %s m=%d of %v", l.Type, l.M, sizes), Settle: SettleLayer,
		Kernels: 2 * len(sizes)}
	problems := make([]cuda.MatmulProblem, len(sizes))
	var parts []Part
	weights := 0.0
	for i, s := range sizes {
		p, one, err := GEMM{Type: l.Type, M: l.M, N: s[0], K: s[1]}.describe()
		if err != nil {
			return nil, err
		}

		problems[i], c.DType = p, one.DType
		c.Bytes, c.Flops = c.Bytes+one.Bytes, c.Flops+one.Flops
		extent, _, _ := problems[i].Extents()
		weights += float64(extent * problems[i].A.Size())
		parts = append(parts, Part{"gemm_dtype": l.Type, "m": l.M, "n": s[0], "k": s[1]})
	}

	text, err := json.Marshal(parts)
	if err != nil {
		return nil, err
	}

	reads := make([]bool, len(problems)) // the output of the previous product
	chained := 0
	for i := range problems[1:] {
		if reads[i+1] = chains(problems[i], problems[i+1], d.Arena.Out.bytes); reads[i+1] {
			// Keep the standard deviation at 1 along the chain.
			problems[i].Alpha = float32(1 / math.Sqrt(float64(problems[i].K)))
			chained++
		}
	}

	d.rotate(c, weights)
	pool, err := d.Arena.Operands(c.DType)
	if err != nil {
		return nil, err
	}

	if float64(c.Sets)*weights > float64(pool.bytes) {
		return nil, tooLarge("its weights", int64(float64(c.Sets)*weights), pool.bytes)
	}

	var products []cuda.Matmul
	var sets [][]cuda.Operands
	free := func() {
		for _, m := range products {
			m.Close()
		}
	}

	in, out := pool.cursor(c.Label), d.Arena.Out.cursor(c.Label)
	for i, p := range problems {
		var left cuda.Ptr
		if reads[i] {
			left = sets[i-1][0].D
		}

		mine, err := d.matmulSets(p, in, out, left, c.Sets)
		if err == nil {
			var found cuda.Matmul
			if found, err = lt.Prepare(p); err == nil {
				products, sets = append(products, found), append(sets, mine)
				continue
			}

			err = d.matmulError(err)
		}

		free()
		return nil, err
	}

	algos := make([]string, len(products))
	for i, m := range products {
		algos[i] = m.Algo().String()
	}

	c.Columns = map[string]any{
		"kernel_source": "cublaslt", "algo": strings.Join(algos, "; "), "cache": d.cacheState(c.Sets, weights, pool),
		"products": len(problems), "chained": chained, "parts": string(text),
	}

	c.Enqueue = func(set int, s cuda.Stream) error {
		for i, m := range products {
			if err := m.Enqueue(sets[i][set], s); err != nil {
				return err
			}
		}

		return nil
	}

	c.Close = free
	return c, nil
}
