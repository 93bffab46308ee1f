"""``python -m campaign``."""

from campaign.command import main

if __name__ == "__main__":
    main()
