"""What tests are made of: scans, scenes, rooms, runs, replies, small models, servers and pages."""
