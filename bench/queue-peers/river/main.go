// How many operations a second River acknowledges durably on SQLite; prints one line of JSON.
//
//	river DIRECTORY enqueue|cycle SECONDS CLIENTS
//
// One connection, as its driver advises. In a cycle River's own client works the jobs, as many at once
// as there are clients; they wait while that many are not yet worked off, so that the queue stays
// short. What has been completed is read from the database at the end.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite"
)

type noopArgs struct {
	Number int    `json:"number"`
	To     string `json:"to"`
}

func (noopArgs) Kind() string { return "noop" }

type noopWorker struct {
	river.WorkerDefaults[noopArgs]
	worked *atomic.Int64
}

func (w *noopWorker) Work(context.Context, *river.Job[noopArgs]) error {
	w.worked.Add(1)
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 4 {
		return fmt.Errorf("river DIRECTORY enqueue|cycle SECONDS CLIENTS")
	}
	seconds, err := strconv.ParseFloat(arguments[2], 64)
	if err != nil {
		return err
	}
	clients, err := strconv.Atoi(arguments[3])
	if err != nil {
		return err
	}
	isCycle := arguments[1] == "cycle"
	ctx := context.Background()
	path := "file:" + filepath.Join(arguments[0], "queue.db") +
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)"
	database, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer database.Close()
	database.SetMaxOpenConns(1)
	driver := riversqlite.New(database)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	var level int
	if err := database.QueryRow("PRAGMA synchronous").Scan(&level); err != nil {
		return err
	}
	if level != 2 {
		return fmt.Errorf("`synchronous` is %d and not FULL", level)
	}

	var inserted, worked atomic.Int64
	config := &river.Config{
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError + 4})),
	}
	if isCycle {
		workers := river.NewWorkers()
		river.AddWorker(workers, &noopWorker{worked: &worked})
		config.Workers = workers
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: clients}}
		config.FetchCooldown = river.FetchCooldownMin
		config.FetchPollInterval = river.FetchPollIntervalMin
	}
	client, err := river.NewClient(driver, config)
	if err != nil {
		return err
	}
	if isCycle {
		if err := client.Start(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	end := began.Add(time.Duration(seconds * float64(time.Second)))
	var group sync.WaitGroup
	failures := make(chan error, clients)
	for range clients {
		group.Add(1)
		go func() {
			defer group.Done()
			for time.Now().Before(end) {
				if isCycle && inserted.Load()-worked.Load() > int64(2*clients) {
					time.Sleep(time.Millisecond)
					continue
				}
				_, err := client.Insert(ctx, noopArgs{Number: 1, To: "someone@example.org"}, nil)
				if err != nil {
					failures <- err
					return
				}
				inserted.Add(1)
			}
		}()
	}
	group.Wait()
	took := time.Since(began).Seconds()
	select {
	case err := <-failures:
		return err
	default:
	}
	done := inserted.Load()
	if isCycle {
		query := "SELECT count(*) FROM river_job WHERE state = 'completed'"
		if err := database.QueryRow(query).Scan(&done); err != nil {
			return err
		}
		took = time.Since(began).Seconds()
		stopping, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := client.StopAndCancel(stopping); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"done": done, "seconds": took,
		"clients":    fmt.Sprintf("%d goroutines, one connection", clients),
		"durability": "synchronous=FULL",
	})
}
