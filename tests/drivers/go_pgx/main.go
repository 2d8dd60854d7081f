// pgx 4: a connection of its pool, asked by Ping before, and WaitForNotification.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v4/pgxpool"
)

func listen(pool *pgxpool.Pool) error {
	ctx := context.Background()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := conn.Ping(ctx); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "LISTEN drivers"); err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		n, err := conn.Conn().WaitForNotification(ctx)
		if err != nil {
			return err
		}
		fmt.Println("got", n.Payload)
	}
}

func main() {
	for {
		pool, err := pgxpool.Connect(context.Background(), os.Args[1])
		if err == nil {
			err = listen(pool)
			pool.Close()
		}
		fmt.Println("lost", err)
		time.Sleep(20 * time.Millisecond)
	}
}
