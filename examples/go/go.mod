module oncegate.example/oncegate

go 1.19
