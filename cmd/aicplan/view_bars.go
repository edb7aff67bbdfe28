package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// barView shows a progress bar for each stage with cases. Everything else is printed above the bars by
// lineView.
type barView struct {
	*lineView
	terminal *app
	progress *mpb.Progress

	mu   sync.Mutex
	bars map[string]*stageBar
}

type stageBar struct {
	bar     *mpb.Bar
	started time.Time
	pace    pace
	status  string // of the running case
	below   string // further lines of the status
}

func newBarView(a *app) *barView {
	v := &barView{terminal: a, progress: mpb.New(mpb.WithOutput(textutil.Raw(a.stdout)), mpb.WithWidth(24)),
		bars: map[string]*stageBar{}}
	// Print lines through the container, which redraws the bars below them.
	above := *a
	above.stdout, above.behind = &textutil.Writer{W: v.progress, Colors: true}, a.screen()
	v.lineView = newLineView(&above)
	return v
}

// Progress implements run.View.
func (v *barView) Progress(address string, p stage.Progress) {
	if p.Total == 0 {
		return // no bar without a total
	}

	v.mu.Lock()
	defer v.mu.Unlock()
	b := v.bars[address]
	if b == nil {
		b = &stageBar{started: time.Now()}
		text := func(decor.Statistics) string {
			v.mu.Lock()
			defer v.mu.Unlock()
			if b.status != "" {
				return b.status
			}
			return b.pace.text(b.started, time.Now())
		}

		table := func(w io.Writer, st decor.Statistics) error {
			v.mu.Lock()
			defer v.mu.Unlock()
			for line := range strings.Lines(b.below) {
				if _, err := fmt.Fprintln(w,
					textutil.Clip(textutil.VisibleLine(strings.TrimRight(line, "\n")), max(st.AvailableWidth, 1))); err != nil {
					return err
				}
			}
			return nil
		}

		b.bar = v.progress.AddBar(int64(p.Total),
			mpb.BarRemoveOnComplete(),
			mpb.BarExtender(mpb.BarFillerFunc(table), false),
			mpb.PrependDecorators(decor.Name(textutil.Clip(textutil.VisibleLine(address), 24),
				decor.WC{W: 25, C: decor.DindentRight})),
			mpb.AppendDecorators(decor.Any(text)))

		v.bars[address] = b
	}

	b.pace.update(time.Now(), p)
	b.status, b.below = "", ""
	b.bar.SetCurrent(int64(casesEnded(p)))
}

// Message implements run.View.
func (v *barView) Message(address, level, text string) {
	if level == stage.MessageStatus {
		v.mu.Lock()
		if b := v.bars[address]; b != nil {
			b.status, b.below, _ = strings.Cut(text, "\n")
		}
		v.mu.Unlock()
		return
	}
	v.lineView.Message(address, level, text)
}

// StageEnd implements run.View.
func (v *barView) StageEnd(r *run.StageResult) {
	v.mu.Lock()
	b := v.bars[r.Address]
	delete(v.bars, r.Address)
	v.mu.Unlock()
	if b != nil {
		b.bar.Abort(true)
	}
	v.lineView.StageEnd(r)
}

// RunEnd implements run.View.
func (v *barView) RunEnd(r *run.Applied) {
	v.progress.Wait()
	v.terminal.viewResult(v.p, r)
}
