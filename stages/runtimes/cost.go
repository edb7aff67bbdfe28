package runtimes

import (
	"aicplan/cudaops/measure"
	"aicplan/cudaops/ops"
	"aicplan/engine/stage"
	"aicplan/sink/rules"
)

// The functions below estimate the seconds of a case from those of its kernels: the executions of the measure block,
// and the overhead that was measured on H200s (docs/results/h200.md, docs/guides/frameworks.md).

// referenceExecutions of the collectors' protocol: eager, replays, timed replays,
// capture.
const referenceExecutions = 3 + 3 + 6 + 1

// passSeconds is the device time of one pass without its pauses.
func passSeconds(s measure.Settings, blocks int, least, kernel float64) float64 {
	return s.WarmupSeconds + kernel + float64(blocks)*max(least, kernel)
}

const (
	cudaHostSeconds  = 2.4e-3 // choosing algorithms, capturing and queueing, a case
	cudaBusyShare    = 0.7    // of the time above it: pauses keep the mean power below the cap
	cudaCappedSecond = 15e-6  // the power cap rarely limits shorter kernels
	cudaHeat         = 1.3    // seconds that a window of capped cases is heated
	cudaWindow       = 192.   // default of the option window, in cases
	cudaCoolBlock    = 0.5e-3 // of the other cases at the sustained point
	cudaLayer        = 0.65   // beside the time that a layer runs
	powerEdges       = 0.4    // `power = true` takes so much more than power_min_seconds: steps of the counter
)

// cudaSeconds is the CaseSeconds of cuda.
func cudaSeconds(_ *stage.Runtime, s measure.Settings, k rules.Kernel) float64 {
	kernel := k.Seconds
	if s.Protocol == measure.ProtocolReference {
		return cudaHostSeconds + referenceExecutions*kernel
	}
	passes, blocks := float64(s.Passes), s.MinSamples
	switch {
	case kernel > 1e-3:
		blocks = min(blocks, 1)
	case kernel > 0.3e-3:
		blocks = min(blocks, 2)
	}
	extra := powerSeconds(s)
	if sustained(s) && k.Seconds > cudaCappedSecond {
		return cudaHostSeconds + cudaHeat/cudaWindow + passes*max(measure.HotLength(cudaWindow).Seconds(), kernel) + extra
	}
	least := s.MinBlockSeconds
	if sustained(s) {
		least = max(least, cudaCoolBlock)
	}
	return cudaHostSeconds + passes*(s.IdleGapSeconds+passSeconds(s, blocks, least, kernel))/cudaBusyShare + extra
}

// layerSeconds is the OpSeconds of cuda. A layer runs alone until its clock is settled.
func layerSeconds(op string, s measure.Settings) float64 {
	if op != ops.OpLayer || !sustained(s) {
		return 0
	}
	return ops.SettleLayer + cudaLayer + powerSeconds(s)
}

// powerSeconds is the time that power = true adds to a case.
func powerSeconds(s measure.Settings) float64 {
	if !s.Power {
		return 0
	}
	return s.PowerMinSeconds + powerEdges
}

func sustained(s measure.Settings) bool {
	return s.Protocol != measure.ProtocolReference && s.OperatingPoint == measure.PointSustained && s.WarmupSeconds == 0
}

const (
	pythonHostSeconds = 15e-3 // preparing: layers, operands, capture
	hostedHostSeconds = 5e-3  // on several cores
	pythonGapSeconds  = 4e-3
	pythonCapped      = 0.06e-3 // the power cap limits few shorter kernels
	pythonBatch       = 75e-3   // of a capped case in a batch of 40: its share of the heating, and its visits
	hostedBatch       = 23e-3   // in the larger batches of several workers
	pythonEager       = 3       // executions that prepare a case and find the length of a block
	pythonCold        = 28e-3   // visits to both forms of a case with a cold cache
	pythonColdMost    = 0.2e-3  // longer kernels are measured hot only
)

// pythonSeconds is the CaseSeconds of python.
func pythonSeconds(rt *stage.Runtime, s measure.Settings, k rules.Kernel) float64 {
	kernel := k.Seconds
	onGPU := onGPUs(rt)
	if s.Protocol == measure.ProtocolReference {
		return 5e-3 + referenceExecutions*kernel
	}
	gap, host, batch := s.IdleGapSeconds, 1e-3, pythonBatch
	if onGPU {
		gap, host = max(gap, pythonGapSeconds), pythonHostSeconds
	}
	if onGPU && k.Collector {
		host, batch = hostedHostSeconds, hostedBatch
	}
	extra := pythonEager*kernel + powerSeconds(s)
	if k.Cold && kernel <= pythonColdMost {
		extra += pythonCold
	}
	if onGPU && s.OperatingPoint == measure.PointSustained && s.WarmupSeconds == 0 && kernel > pythonCapped {
		return host + gap + max(batch, float64(s.Passes)*kernel) + extra
	}
	return host + float64(s.Passes)*(gap+passSeconds(s, s.MinSamples, s.MinBlockSeconds, kernel)) + extra
}

const (
	ncclBrief      = 40e-6 // executions below this are replayed for ncclBriefVisit
	ncclBriefVisit = 12e-3
)

// ncclSeconds is the CaseSeconds of nccl. A graph is captured for every visit and replayed, and every buffer is
// checked.
func ncclSeconds(_ *stage.Runtime, s measure.Settings, k rules.Kernel) float64 {
	kernel := k.Seconds
	if s.Protocol == measure.ProtocolReference {
		return 20e-3 + 140*kernel
	}
	visit := 18 * kernel
	if kernel < ncclBrief && s.Graph != measure.GraphOff {
		visit = ncclBriefVisit
	}
	return 10e-3 + float64(s.Passes)*(s.IdleGapSeconds+3e-3+visit)
}

const cpuGapSeconds = 20e-3

// cpuSeconds is the CaseSeconds of cpu.
func cpuSeconds(_ *stage.Runtime, s measure.Settings, k rules.Kernel) float64 {
	kernel := k.Seconds
	if s.Protocol == measure.ProtocolReference {
		return referenceExecutions * kernel
	}
	return float64(
		s.Passes,
	) * (max(s.IdleGapSeconds, cpuGapSeconds) + passSeconds(s, s.MinSamples, s.MinBlockSeconds, kernel))
}

// What a core of a processor of today reaches in products of this program's own,
// and its memory; there is no file with the peaks of processors.
const (
	coreFlops    = 5e9
	processorMem = 10e9
)
